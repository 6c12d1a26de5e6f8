"""PostgreSQL over TLS with a login: who is let in, and what is told to whom is not."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from relay.core.errors import StorageUnavailable
from relay.core.sqltext import sql_root
from relay.demo.postgres import PostgresServer
from relay.demo.process import make_folder, unprivileged
from relay.storage.options import PostgresOptions
from relay.storage.postgres import PostgresOutbox
from tests.services.identities import Identities, KeyPair

pytestmark = pytest.mark.integration

PASSWORD, WRONG = "s3cret/of:ours", "wr0ng/one:really"
_HBA = "host all postgres 127.0.0.1/32 trust\nhostssl all relay 127.0.0.1/32 scram-sha-256\n"


class Secured:
    """A server that lets ``relay`` in by password and over TLS alone."""

    def __init__(self, server: PostgresServer, identities: Identities, strangers: Identities) -> None:
        self.server = server
        self.identities = identities
        self.strangers = strangers

    def url(self, password: str = PASSWORD, **parameters: object) -> str:
        known: dict[str, object] = {"sslmode": "verify-full", "sslrootcert": self.identities.ca_file}
        query = "&".join(f"{name}={value}" for name, value in (known | parameters).items())
        return f"postgres://relay:{quote(password, safe='')}@127.0.0.1:{self.server.port}/postgres?{query}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    ours, strangers = (Identities(tmp_path_factory.mktemp(name)) for name in ("ours", "strangers"))
    account = unprivileged()
    folder = make_folder("identity", account)
    try:
        pair = _readable(ours.issue("server"), folder)
        (folder / "hba").write_text(_HBA, encoding="utf-8")
        (folder / "hba").chmod(0o644)
        settings = {"ssl": "on", "ssl_cert_file": pair.certificate, "ssl_key_file": pair.key}
        texts = {name: str(value) for name, value in settings.items()} | {"hba_file": str(folder / "hba")}
        with PostgresServer(settings=texts) as server:
            with psycopg.connect(server.url, autocommit=True) as admin:
                for migration in sorted((sql_root() / "outbox/migrations").glob("*.sql")):
                    admin.execute(migration.read_bytes())
                admin.execute(f"CREATE ROLE relay LOGIN PASSWORD '{PASSWORD}'".encode())
                admin.execute("GRANT SELECT, UPDATE ON openoutbox_events TO relay")
            yield Secured(server, ours, strangers)
    finally:
        shutil.rmtree(folder)


def _readable(pair: KeyPair, folder: Path) -> KeyPair:
    """A copy for the account that the server runs as; it takes no key that others may read."""
    copy = KeyPair(folder / "server.crt", folder / "server.key")
    account = unprivileged()
    for source, target in ((pair.certificate, copy.certificate), (pair.key, copy.key)):
        shutil.copyfile(source, target)
        target.chmod(0o600)
        if account is not None:
            os.chown(target, account.uid, account.gid)
    return copy


async def ping(url: str) -> None:
    storage = PostgresOutbox(PostgresOptions(url, "relay"))
    try:
        await storage.open()
        await storage.ping()
    finally:
        await storage.close()


async def test_a_verified_server_and_the_right_password(secured: Secured) -> None:
    storage = PostgresOutbox(PostgresOptions(secured.url(), "relay"))
    await storage.open()
    await storage.ping()
    encrypted = await asyncio.to_thread(_encrypted, secured.server.url)
    await storage.close()
    assert encrypted
    assert all(encrypted)


def _encrypted(url: str) -> list[bool]:
    with psycopg.connect(url) as admin:
        found = admin.execute(
            "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
            "WHERE a.application_name LIKE 'openoutbox-relay/%'"
        )
        return [row[0] for row in found]


@pytest.mark.parametrize(
    ("password", "parameters", "told"),
    [
        (WRONG, {}, "password authentication failed"),
        (PASSWORD, {"sslrootcert": "strangers"}, "certificate verify failed"),
        (PASSWORD, {"sslmode": "disable", "sslrootcert": ""}, "no pg_hba.conf entry"),
        (PASSWORD, {"sslrootcert": "/not/there.pem"}, 'root certificate file "/not/there.pem" does not exist'),
    ],
    ids=["password", "authority", "no encryption", "no file"],
)
async def test_who_is_refused_is_told_why_without_the_password(
    secured: Secured, password: str, parameters: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    if parameters.get("sslrootcert") == "strangers":
        parameters = {"sslrootcert": str(secured.strangers.ca_file)}
    with pytest.raises(StorageUnavailable, match=told) as caught:
        await ping(secured.url(password, **parameters))
    for secret in (password, quote(password, safe="")):
        assert secret not in f"{caught.value} {caught.value.__cause__} {caplog.text}"
