"""``relay-cli pause`` and ``resume``, and a relay that obeys: started before the extension was added."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import answer, call_cli
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres


def prepare(outbox: Outbox, tmp_path: Path) -> None:
    """Add the extension, and grant its rights by relay-cli roles."""
    added = call_cli(tmp_path, "migrate", "--with", "pause", STORAGE_URL=outbox.owner_url)
    assert added.returncode == 0, added.stderr
    with outbox.database.connect() as connection:
        give_rights(connection)


def test_pause_and_resume_say_what_they_did(outbox: Outbox, tmp_path: Path) -> None:
    env = {"STORAGE_URL": outbox.url_of("operator")}
    missing = call_cli(tmp_path, "pause", **env)
    assert missing.returncode == 1
    assert "relay-cli migrate --table openoutbox_events --with pause" in missing.stderr
    prepare(outbox, tmp_path)
    assert call_cli(tmp_path, "pause", "--list", **env).stdout == "nothing is paused\n"
    first = call_cli(tmp_path, "pause", "--type", "a", "--reason", "repair", "--by", "ann", "--json", **env)
    pause = json.loads(first.stdout)
    assert {name: pause[name] for name in ("scope", "name", "until", "paused_by", "reason")} == {
        "scope": "type", "name": "a", "until": None, "paused_by": "ann", "reason": "repair",
    }  # fmt: skip
    prefix = call_cli(tmp_path, "pause", "--prefix", "a.", "--for", "1h", "--by", "ann", **env)
    assert prefix.stdout.startswith("every event type that begins with a. is paused by ann since 2")
    resumed = call_cli(tmp_path, "resume", "--type", "a", **env)
    assert resumed.stdout.startswith(
        "resumed event type a\nstill: every event type that begins with a. is paused by ann"
    )
    again = call_cli(tmp_path, "resume", "--type", "a", **env)
    assert (again.returncode, again.stdout.split("\n")[0]) == (0, "event type a was not paused")
    assert call_cli(tmp_path, "resume", "--all", **env).stdout == "resumed every event type that begins with a.\n"
    assert call_cli(tmp_path, "resume", "--all", **env).stdout == "nothing was paused\n"
    for wrong in (("pause", "--type", "a", "--prefix", "a"), ("pause", "--until", "5m"), ("pause", "--for", "0s")):
        assert call_cli(tmp_path, *wrong, **env).returncode == 2


def test_stats_says_what_is_paused_and_how_many_events_wait_because_of_it(outbox: Outbox, tmp_path: Path) -> None:
    outbox.insert([Row("a"), Row("a"), Row("b"), Row("c")])
    outbox.database.run("UPDATE openoutbox_events SET available_at = NOW() - INTERVAL '1 hour' WHERE event_type = 'a'")
    outbox.database.run("UPDATE openoutbox_events SET available_at = NOW() + INTERVAL '1 hour' WHERE event_type = 'c'")
    prepare(outbox, tmp_path)
    operator, reader = {"STORAGE_URL": outbox.url_of("operator")}, {"STORAGE_URL": outbox.reader_url}
    for arguments in (("--type", "a", "--reason", "repair"), ("--prefix", "c")):
        assert call_cli(tmp_path, "pause", *arguments, "--by", "ann", **operator).returncode == 0
    figures = answer(tmp_path, "stats", **reader)
    assert figures["oldest_due_age_sec"] < 60
    assert figures["pending_count"] == 4
    first, second = figures["pauses"]
    assert {name: first[name] for name in ("scope", "name", "paused_by", "reason", "waiting_count")} == {
        "scope": "type", "name": "a", "paused_by": "ann", "reason": "repair", "waiting_count": 2,
    }  # fmt: skip
    assert (first["waiting_at_least"], second["name"], second["waiting_count"]) == (False, "c", 0)
    lines = call_cli(tmp_path, "stats", **reader).stdout.splitlines()
    causes = call_cli(tmp_path, "causes", **reader).stdout.splitlines()
    assert lines[1].startswith("warning: Event type a is paused by ann since 2")
    assert lines[1].endswith(": repair; 2 due events wait because of it.")
    assert lines[1:4] == [line for line in causes if not line.startswith("  ->")][:3]
    assert call_cli(tmp_path, "pause", "--by", "ann", **operator).returncode == 0
    assert answer(tmp_path, "stats", **reader)["oldest_due_age_sec"] == 0


def test_stats_without_the_right_to_read_the_pauses_has_the_figures(outbox: Outbox, tmp_path: Path) -> None:
    outbox.insert([Row("a")])
    assert call_cli(tmp_path, "migrate", "--with", "pause", STORAGE_URL=outbox.owner_url).returncode == 0
    figures = answer(tmp_path, "stats", STORAGE_URL=outbox.reader_url)
    assert (figures["pending_count"], figures["pauses"]) == (1, None)
    lines = call_cli(tmp_path, "stats", STORAGE_URL=outbox.reader_url).stdout.splitlines()
    assert "GRANT SELECT ON" in lines[1]
    assert lines[1].endswith("; oldest_due_age_sec includes what is paused")


def test_a_running_relay_obeys_and_stays_ready(outbox: Outbox, daemon: StartDaemon, tmp_path: Path) -> None:
    relay = daemon(STORAGE_URL=outbox.relay_url, PUBLISHER_TYPE="null", HEALTH_CHECK_INTERVAL="500ms")
    outbox.insert([Row("a")])
    wait_until(lambda: outbox.counts() == {"DELIVERED": 1}, 20.0, "the first event to be delivered")
    prepare(outbox, tmp_path)
    env = {"STORAGE_URL": outbox.url_of("operator")}
    assert call_cli(tmp_path, "pause", "--type", "a", "--by", "ann", **env).returncode == 0
    wait_until(lambda: "paused" in json.loads(relay.get("/readyz")[1]), 10.0, "the relay to obey")
    assert relay.get("/readyz")[0] == 200
    assert relay.metric("openoutbox_paused") == 1
    outbox.insert([Row("a"), Row("b")])
    wait_until(lambda: outbox.counts() == {"DELIVERED": 2, "PENDING": 1}, 10.0, "the other type to be delivered")
    [sentence] = json.loads(relay.get("/stats")[1])["paused"]
    assert sentence.startswith("event type a is paused by ann since")
    assert call_cli(tmp_path, "resume", "--type", "a", **env).returncode == 0
    wait_until(lambda: outbox.counts() == {"DELIVERED": 3}, 10.0, "the paused event to be delivered")


def test_check_examines_the_rights_and_names_pauses(outbox: Outbox, tmp_path: Path) -> None:
    operator = {"STORAGE_URL": outbox.url_of("operator")}
    relay = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "null"}
    assert "--with pause" in call_cli(tmp_path, "check", "--for", "operator", **operator).stdout
    added = call_cli(tmp_path, "migrate", "--with", "pause", "--with", "fleet", STORAGE_URL=outbox.owner_url)
    assert added.returncode == 0
    lacking = call_cli(tmp_path, "check", **relay)
    assert lacking.returncode == 1
    assert 'run: GRANT SELECT ON "openoutbox_pauses" TO "test_relay"' in lacking.stdout
    assert 'run: GRANT SELECT, INSERT, UPDATE, DELETE ON "openoutbox_relays" TO "test_relay"' in lacking.stdout
    refused = call_cli(tmp_path, "check", "--for", "operator", **operator)
    assert 'GRANT SELECT, INSERT, UPDATE, DELETE ON "openoutbox_pauses" TO "test_operator"' in refused.stdout
    prepare(outbox, tmp_path)
    assert call_cli(tmp_path, "check", "--for", "operator", **operator).returncode == 0
    assert call_cli(tmp_path, "pause", "--by", "ann", **operator).returncode == 0
    able = call_cli(tmp_path, "check", **relay)
    assert able.returncode == 0, able.stdout
    assert "pause: The whole outbox is paused by ann since 2" in able.stdout
