"""Secrets from mounted files, and a bad one: what `/readyz` and the log say of it, and what they do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox, as_user
from tests.support.servers.nats import NatsServer
from tests.support.servers.postgres_secured import PASSWORD, SecuredPostgres
from tests.support.waiting import patience, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.nats]

RIGHT, WRONG, STORAGE = "r1ght-secret", "wr0ng-secret", "st0rage-secret"


@pytest.fixture
def guarded() -> Iterator[NatsServer]:
    with NatsServer(config=f"authorization {{ user: relay, password: {RIGHT} }}") as server:
        yield server


def mounted(folder: Path, outbox: Outbox, server: NatsServer, password: str) -> dict[str, str]:
    database, publisher = folder / "storage-url", folder / "publisher-url"
    database.write_text(as_user(outbox.url, f"test_relay:{STORAGE}") + "\n", encoding="utf-8")
    publisher.write_text(f"nats://relay:{password}@127.0.0.1:{server.port}\n", encoding="utf-8")
    files = {"STORAGE_URL_FILE": str(database), "PUBLISHER_URL_FILE": str(publisher)}
    return {"STORAGE_URL": "", "PUBLISHER_TYPE": "nats", **files}


def test_a_good_secret_from_a_file_makes_the_relay_ready(outbox: Outbox, guarded: NatsServer, tmp_path: Path) -> None:
    with Daemon("", mounted(tmp_path, outbox, guarded, RIGHT)) as relay:
        relay.wait_ready()
        assert relay.stop() == 0
        for secret in (RIGHT, STORAGE):
            assert secret not in relay.log()


def test_a_bad_secret_is_reported_everywhere_without_itself(
    outbox: Outbox, guarded: NatsServer, tmp_path: Path
) -> None:
    outbox.fill("t", 5)
    with Daemon("", mounted(tmp_path, outbox, guarded, WRONG)) as relay:
        wait_until(lambda: relay.running and "uthorization" in relay.get("/readyz")[1], what="the reason in /readyz")
        status, ready = relay.get("/readyz")
        assert status == 503
        wait_until(lambda: relay.metric("openoutbox_relay_state") == 2, what="the relay to be paused")
        shown = ready + relay.get("/metrics")[1] + relay.get("/stats")[1]
        assert relay.stop() == 0
        shown += relay.log() + relay.output()
    assert "uthorization" in relay_reasons(shown)
    for secret in (WRONG, STORAGE):
        assert secret not in shown
    assert outbox.database.run("SELECT DISTINCT status, attempts FROM openoutbox_events") == [("PENDING", 0)]


UNESCAPED = "48151/qzvxj?62342#zqjvx"
URLS = [f"redis://u:{UNESCAPED}@127.0.0.1:1", f"nats://u:{UNESCAPED}@127.0.0.1:1", f"kafka://u:{UNESCAPED}@127.0.0.1:1"]


@pytest.mark.parametrize("variables", [*({"PUBLISHER_URL": url} for url in URLS), {"STORAGE_URL": URLS[0]}], ids=str)
def test_a_start_that_fails_for_special_characters_shows_no_part_of_the_password(variables: dict[str, str]) -> None:
    with Daemon("postgres://u@127.0.0.1:1/d", variables) as relay:
        assert relay.process.wait(patience()) == 2
        shown = relay.log() + relay.output()
    assert next(iter(variables)) in shown
    assert [part for part in ("48151", "qzvxj", "62342", "zqjvx") if part in shown] == []


def relay_reasons(output: str) -> str:
    """The lines that speak of the broker."""
    return "\n".join(line for line in output.splitlines() if "broker" in line)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPostgres]:
    with SecuredPostgres(tmp_path_factory.mktemp("secured")) as server:
        yield server


def storage(place: str, folder: Path, url: str) -> dict[str, str]:
    """The URL of the database where a secret may stand."""
    if place == "environment":
        return {"STORAGE_URL": url}
    (folder / "storage-url").write_text(url, encoding="utf-8")
    return {"STORAGE_URL": "", "STORAGE_URL_FILE": str(folder / "storage-url")}


@pytest.mark.parametrize("place", ["environment", "mounted file"])
def test_the_databases_good_and_bad_secret(secured: SecuredPostgres, place: str, tmp_path: Path) -> None:
    shown = ""
    with Daemon("", {"PUBLISHER_TYPE": "null", **storage(place, tmp_path, secured.url(WRONG))}) as refused:
        reason = "password authentication failed"
        wait_until(lambda: refused.running and reason in refused.get("/readyz")[1], what="the reason in /readyz")
        assert refused.get("/readyz")[0] == 503
        wait_until(lambda: refused.metric("openoutbox_relay_state") == 3, what="the state to say so")
        shown += refused.get("/readyz")[1] + refused.get("/metrics")[1]
        assert refused.stop() == 0
        assert reason in refused.log()
        shown += refused.log() + refused.output()
    with Daemon("", {"PUBLISHER_TYPE": "null", **storage(place, tmp_path, secured.url())}) as let_in:
        let_in.wait_ready()
        assert let_in.stop() == 0
        shown += let_in.log() + let_in.output()
    for secret in (WRONG, PASSWORD, quote(PASSWORD, safe="")):
        assert secret not in shown


def test_a_wrong_password_of_the_delivery_log_is_degraded_with_what_to_do(secured: SecuredPostgres) -> None:
    addresses = {"STORAGE_URL": secured.url(), "DELIVERY_LOG_URL": secured.url(WRONG)}
    with Daemon("", {"PUBLISHER_TYPE": "null", **addresses}) as relay:
        relay.wait_ready()
        wait_until(lambda: relay.metric("openoutbox_log_degraded") == 1, what="the log to be degraded")
        status, ready = relay.get("/readyz")
        assert status == 200
        said = (
            "degraded: the delivery log's database refuses the login; check DELIVERY_LOG_URL: correct the user or the"
        )
        assert json.loads(ready)["log"] == f"{said} password"
        shown = ready + relay.get("/metrics")[1]
        assert relay.stop() == 0
        [line] = [each for each in relay.log_lines() if each.get("action") == "delivery_log_degraded"]
        assert "password authentication failed" in line["msg"]
        shown += relay.log() + relay.output()
    assert [secret for secret in (WRONG, PASSWORD, quote(PASSWORD, safe="")) if secret in shown] == []
