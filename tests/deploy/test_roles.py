"""Every job of ``deploy`` does its work with the role of its own credentials, and ``relay-cli check`` agrees."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.cli.running import call_cli
from tests.deploy.jobs import DEPLOY, LOG_JOBS, Job, jobs
from tests.support.console import ConsoleProcess
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, as_user, give_rights
from tests.support.waiting import wait_until

USERS = {
    "openoutbox-relay": "test_relay",
    "openoutbox-prune": "test_pruner",
    "openoutbox-migrate": "test_owner",
    "/etc/openoutbox/storage-url": "test_relay",
    "/etc/openoutbox/prune-storage-url": "test_pruner",
    "compose_relay": "compose_relay",
    "compose_pruner": "compose_pruner",
    "compose_console": "compose_console",
    "app": "postgres",
}
"""Whose STORAGE_URL each Secret, file or user of ``deploy`` holds: docs/operate/deployment.md says the same."""
_DIFFERENT = {(job.command, USERS[job.credentials]): job for job in jobs()}
JOBS = [pytest.param(job, id=job.name) for job in _DIFFERENT.values()]
"""One of those that run the same command as the same user."""
PLACES = {"SERVER_PORT", "ROUTES_FILE", "DESTINATIONS_FILE"}
"""Variables of a relay that name a place in its container."""


def url_of(outbox: Outbox, job: Job) -> str:
    """The job's STORAGE_URL; the owner acts as the table's owner."""
    user = USERS[job.credentials]
    return outbox.owner_url if user == "test_owner" else as_user(outbox.url, user)


@pytest.fixture
def granted(outbox: Outbox) -> Outbox:
    """The outbox of ``deploy``: its roles, and the users of the compose file."""
    with outbox.database.connect() as connection:
        give_rights(connection)
        connection.execute((DEPLOY / "postgres" / "compose.sql").read_bytes())
    return outbox


@pytest.mark.parametrize("job", JOBS)
def test_every_job_works_with_its_own_role(granted: Outbox, daemon: StartDaemon, tmp_path: Path, job: Job) -> None:
    url = url_of(granted, job)
    if job.command == ("relay",):
        deliver(granted, daemon, job, url)
        return
    if job.command == ("relay-cli", "console"):
        serve_console(job, url)
        return
    program, command, *_ = job.command
    assert program == "relay-cli"
    granted.fill("old", 3)
    granted.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '8 days'")
    done = call_cli(tmp_path, *job.command[1:], STORAGE_URL=url, **job.variables)
    assert (done.returncode, done.stderr) == (0, "")
    if command == "prune":
        assert "delivered: deleted 3 events" in done.stdout
        assert granted.counts() == {}
        checked = call_cli(tmp_path, "check", "--for", "prune", STORAGE_URL=url)
        assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def deliver(outbox: Outbox, daemon: StartDaemon, job: Job, url: str) -> None:
    """Run a relay of the job's variables, with a publisher that needs no server."""
    outbox.fill("new", 3)
    variables = {name: value for name, value in job.variables.items() if name not in PLACES}
    relay = daemon(**{**variables, "PUBLISHER_TYPE": "null", "PUBLISHER_URL": "", "STORAGE_URL": url})
    wait_until(lambda: relay.running and outbox.counts() == {"DELIVERED": 3}, what="the delivery")
    assert relay.stop() == 0


def serve_console(job: Job, url: str) -> None:
    """Run the console with the tokens of ``deploy/console``. The image's health check asks where it listens."""
    assert job.variables["SERVER_PORT"] == job.variables["CONSOLE_PORT"]
    with ConsoleProcess(url, CONSOLE_TOKENS_FILE=str(DEPLOY / "console" / "tokens")) as console:
        console.wait_ready()
        stats = f"{console.address}/api/v1/stats"
        assert httpx.get(stats).status_code == 401
        token = (DEPLOY / "console" / "tokens").read_text().split("is ", 1)[1].split(".", 1)[0]
        assert httpx.get(stats, headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_the_delivery_log_is_recorded_read_and_maintained_by_its_roles(
    granted: Outbox, daemon: StartDaemon, tmp_path: Path
) -> None:
    def call(*arguments: str, url: str) -> str:
        done = call_cli(tmp_path, *arguments, DELIVERY_LOG_URL=url)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        return done.stdout

    recorder, reader = granted.url_of("log_recorder"), granted.url_of("log_reader")
    call("log", "migrate", url=granted.owner_url)
    with granted.database.connect() as connection:
        give_rights(connection)
    granted.fill("t", 1)
    relay = daemon(PUBLISHER_TYPE="null", DELIVERY_LOG_URL=recorder)
    attempts = "SELECT count(*) FROM openoutbox_log.attempts"
    wait_until(lambda: relay.running and granted.database.run(attempts) == [(1,)], what="the attempt")
    assert relay.stop() == 0
    assert "t" in call("log", "attempts", url=reader)
    assert "has the rights for: record, read" in call("check", "--for", "deliverylog", url=recorder)
    assert "has the rights for: read (for record: " in call("check", "--for", "deliverylog", url=reader)
    for _, *job in LOG_JOBS:
        call(*job, url=granted.owner_url)


def test_jobs_that_prune_have_credentials_of_their_own() -> None:
    relays = {job.credentials for job in jobs() if job.command == ("relay",)}
    prunes = {job.credentials for job in jobs() if "prune" in job.command}
    assert {job.name.split()[0] for job in jobs() if "prune" in job.command} == {
        "kubernetes",
        "compose",
        "systemd",
    }
    assert not relays & prunes


def test_the_relays_credentials_are_not_enough_to_prune(granted: Outbox, tmp_path: Path) -> None:
    done = call_cli(tmp_path, "prune", STORAGE_URL=granted.relay_url)
    assert done.returncode == 1
    assert "GRANT SELECT, DELETE" in done.stderr
