"""PostgreSQL over TLS with a login: which logins are accepted, and how refusals are explained."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest

from relay.core.errors import StorageUnavailable
from relay.outbox.storage import PostgresOutbox
from tests.support.options import storage_options
from tests.support.servers.postgres_secured import CERTIFIED, PASSWORD, SecuredPostgres

pytestmark = pytest.mark.postgres

WRONG = "wr0ng/one:really"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPostgres]:
    with SecuredPostgres(tmp_path_factory.mktemp("secured")) as server:
        yield server


async def ping(url: str) -> None:
    storage = PostgresOutbox(storage_options(url, "relay"))
    try:
        await storage.open()
        await storage.ping()
    finally:
        await storage.close()


async def test_a_verified_server_and_the_right_password(secured: SecuredPostgres) -> None:
    storage = PostgresOutbox(storage_options(secured.url(), "relay"))
    await storage.open()
    await storage.ping()
    encrypted = await asyncio.to_thread(_encrypted, secured.server.url)
    await storage.close()
    assert encrypted
    assert all(encrypted)


def _encrypted(url: str) -> list[bool]:
    with psycopg.connect(url) as admin:
        rows = admin.execute(
            "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
            "WHERE a.application_name LIKE 'openoutbox-relay/%'"
        )
        return [row[0] for row in rows]


@pytest.mark.parametrize(
    ("password", "parameters", "message"),
    [
        (WRONG, {}, "password authentication failed"),
        (PASSWORD, {"sslrootcert": "strangers"}, "certificate verify failed"),
        (PASSWORD, {"sslmode": "disable", "sslrootcert": ""}, "no pg_hba.conf entry"),
        (PASSWORD, {"sslrootcert": "/not/there.pem"}, 'root certificate file "/not/there.pem" does not exist'),
    ],
    ids=["password", "authority", "no encryption", "no file"],
)
async def test_a_refusal_is_explained_without_the_password(
    secured: SecuredPostgres, password: str, parameters: dict[str, str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    if parameters.get("sslrootcert") == "strangers":
        parameters = {"sslrootcert": str(secured.strangers.ca_file)}
    with pytest.raises(StorageUnavailable, match=message) as caught:
        await ping(secured.url(password, **parameters))
    for secret in (password, quote(password, safe="")):
        assert secret not in f"{caught.value} {caught.value.__cause__} {caplog.text}"


async def test_a_certificate_is_let_in_without_a_password(secured: SecuredPostgres) -> None:
    await ping(secured.url_with(secured.identities.issue("client", CERTIFIED)))


@pytest.mark.parametrize(
    ("presented", "message"),
    [
        ("a stranger's", "unknown ca"),
        ("another user's", "certificate authentication failed for user"),
        ("none", "requires a valid client certificate"),
    ],
)
async def test_a_wrong_certificate_is_refused_and_reported(
    secured: SecuredPostgres, presented: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pairs = {
        "a stranger's": secured.strangers.issue("client", CERTIFIED),
        "another user's": secured.identities.issue("other", "somebody.test"),
    }
    with pytest.raises(StorageUnavailable, match=message) as caught:
        await ping(secured.url_with(pairs.get(presented)))
    assert "PRIVATE KEY" not in f"{caught.value} {caught.value.__cause__} {caplog.text}"
