"""Changes through the API when something goes wrong: refused, repeated, stopped, or the console ends meanwhile."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest

from relay.console.jobs import MOST_JOBS
from relay.localservers.postgres import PostgresServer
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.console.conftest import ConsoleClient, client_of
from tests.console.test_api import API, REPLAY, key, problem
from tests.outbox.admin.filling import fill_aged
from tests.support.console import ConsoleProcess
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.waiting import wait_until

SLOW = REPLAY | {"rate": 0.01}
"""One event in 100 seconds."""
PAUSE = {"scope": "type", "name": "t"}
RECORD = "SELECT state, events, error FROM openoutbox_changes"


def begun(console: ConsoleClient, body: dict[str, Any], headers: dict[str, str]) -> str:
    """Begin a change and wait for its first event; its address."""
    change = console.post(f"{API}/changes", json=body, headers=headers).json()
    place = f"{API}/changes/{change['change_id']}"
    wait_until(lambda: console.get(place).json()["events"] > 0, what="the first event of the change")
    return place


def test_a_slow_change_stops_within_its_wait_and_says_who_stopped_it(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 3)
    place = begun(console, SLOW, key())
    before = console.get(place).json()["updated_at"]
    wait_until(lambda: console.get(place).json()["updated_at"] > before, what="a sign that the change still runs")
    assert console.post(f"{place}/stop").status_code == 200
    wait_until(lambda: console.get(place).json()["state"] != "running", what="the stop")
    change = console.get(place).json()
    assert (change["state"], change["events"], change["error"]) == ("stopped", 1, "stopped by local")


def test_a_repeated_request_gets_its_record_while_no_more_changes_may_run(
    console: ConsoleClient, recorded: Outbox
) -> None:
    fill_aged(recorded, "DEAD", 10)
    keys = [key() for _ in range(MOST_JOBS)]
    places = [begun(console, SLOW | {"reason": str(number)}, each) for number, each in enumerate(keys)]
    refused = key()
    assert problem(console.post(f"{API}/changes", json=SLOW, headers=refused)) == (503, "too-many-changes")
    again = console.post(f"{API}/changes", json=SLOW | {"reason": "0"}, headers=keys[0])
    assert (again.status_code, again.headers["location"]) == (202, places[0])
    for place in places:
        console.post(f"{place}/stop")
    wait_until(lambda: console.get(places[0]).json()["state"] == "stopped", what="a place for one more change")
    assert console.post(f"{API}/changes", json=SLOW, headers=refused).status_code == 202


@pytest.mark.parametrize("kept", [False, True], ids=["raised", "in silence"])
@pytest.mark.parametrize("action", ["replay", "bury"])
def test_a_change_says_which_events_the_database_refuses_and_changes_the_others(
    console: ConsoleClient, recorded: Outbox, action: str, *, kept: bool
) -> None:
    status = {"replay": "DEAD", "bury": "PENDING"}[action]
    fill_aged(recorded, status, 20)
    [(refused,)] = recorded.database.run("SELECT event_id::text FROM openoutbox_events ORDER BY created_at LIMIT 1")
    body = "RETURN NULL" if kept else "RAISE EXCEPTION 'not this one' USING ERRCODE = '42P01'"
    recorded.database.run(f"CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$")
    recorded.database.run(
        f"CREATE TRIGGER hostile BEFORE UPDATE ON openoutbox_events FOR EACH ROW WHEN (OLD.event_id = '{refused}') "
        "EXECUTE FUNCTION hostile()"
    )
    wanted = {"action": action, "selection": {"status": [status.lower()]}}
    place = f"{API}/changes/{console.post(f'{API}/changes', json=wanted, headers=key()).json()['change_id']}"
    wait_until(lambda: console.get(place).json()["state"] not in {"running", "waiting"}, what="the end of the change")
    change = console.get(place).json()
    assert (change["state"], change["events"]) == ("failed", 19)
    assert "refused 1 event, which stay as they were" in change["error"]
    assert refused in change["error"]


def test_a_pause_that_failed_happens_when_it_is_repeated(console: ConsoleClient, recorded: Outbox) -> None:
    headers = key()
    with recorded.database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE openoutbox_pauses IN EXCLUSIVE MODE")
        assert problem(console.post(f"{API}/pauses", json=PAUSE, headers=headers)) == (503, "database-busy")
        other.rollback()
    assert console.get(f"{API}/changes").json()["items"] == []
    assert console.post(f"{API}/pauses", json=PAUSE, headers=headers).json()["state"] == "complete"
    assert len(console.get(f"{API}/pauses").json()["items"]) == 1


def test_an_end_that_no_calendar_has_is_refused(console: ConsoleClient, recorded: Outbox) -> None:
    late = PAUSE | {"until": "9999-12-31T23:59:59-14:00"}
    assert problem(console.post(f"{API}/pauses", json=late, headers=key())) == (422, "invalid-request")
    assert recorded.database.run("SELECT count(*) FROM openoutbox_changes") == [(0,)]


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z"])
def test_times_at_the_ends_of_the_calendar_fail_nothing(console: ConsoleClient, recorded: Outbox, time: str) -> None:
    recorded.database.run("GRANT DELETE ON openoutbox_events TO openoutbox_console")
    answers = []
    for name in ("since", "until", "unchanged_since"):
        body = {"action": "replay", "selection": {"status": ["dead"], name: time}}
        answers += [
            console.post(f"{API}/changes", json=body | {"dry_run": dry}, headers=key()) for dry in (True, False)
        ]
        answers.append(console.get("/changes/new", params={"action": "replay", name: time}))
    for name in ("since", "until"):
        answers += [console.get(path, params={name: time}) for path in (f"{API}/events", "/events")]
    for dry in (True, False):
        answers.append(console.post(f"{API}/prune", json={"as_of": time, "dry_run": dry}, headers=key()))
    assert {answer.status_code for answer in answers} <= {200, 202, 422}, [answer.text for answer in answers]
    assert console.get("/changes").status_code == 200


def test_a_locked_table_is_not_waited_for(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 1)
    [[event_id]] = recorded.database.run("SELECT event_id FROM openoutbox_events")
    paths = (f"{API}/events/{event_id}", f"{API}/prune-preview", f"/events/{event_id}", "/changes/new?action=replay")
    bulk = REPLAY | {"dry_run": True}
    with recorded.database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE openoutbox_events IN ACCESS EXCLUSIVE MODE")
        assert [console.get(path).status_code for path in paths] == [503] * len(paths)
        assert problem(console.post(f"{API}/changes", json=bulk)) == (503, "database-busy")
        other.rollback()


@pytest.mark.parametrize("kills", [False, True], ids=["stopped", "killed"])
def test_what_a_console_has_changed_when_it_ends_is_recorded(recorded: Outbox, kills: bool) -> None:
    fill_aged(recorded, "DEAD", 300)
    with ConsoleProcess(recorded.url_of("console")) as process:
        process.wait_ready()
        body = REPLAY | {"rate": 20}
        httpx.post(f"{process.address}{API}/changes", json=body, headers=key(), timeout=30).raise_for_status()
        wait_until(lambda: recorded.counts().get("PENDING", 0) >= 20, what="a batch")
        if kills:
            process.kill()
        else:
            process.stop()
    [(state, events, error)] = recorded.database.run(RECORD)
    changed = recorded.counts()["PENDING"]
    assert 20 <= changed < 300
    if kills:  # the batch may be committed that the record does not count yet
        assert (state, error, changed - events in {0, 20}) == ("running", None, True)
    else:
        assert (state, events) == ("stopped", changed)
        assert error == "the console was stopped; the same selection changes the rest"


def test_a_change_that_a_crash_of_the_database_ended_is_recorded_when_it_is_back(own_postgres: PostgresServer) -> None:
    outbox = Outbox.create(create_database(own_postgres.url))
    add_extension(outbox.owner_url, TableName(), "console")
    fill_aged(outbox, "DEAD", 300)
    console = client_of(outbox.url)
    place = begun(console, REPLAY | {"rate": 20}, key())
    own_postgres.stop(signal.SIGQUIT)
    assert problem(console.get(place)) == (503, "database-unavailable")
    own_postgres.start()
    wait_until(lambda: console.get(place).json()["state"] == "failed", what="the end of the change in its record")
    change = console.get(place).json()
    assert change["error"]
    assert change["events"] == outbox.counts()["PENDING"] < 300


def test_the_change_of_a_console_that_was_killed_is_interrupted(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 5)
    place = begun(console, SLOW, key())
    console.post(f"{place}/stop")
    wait_until(lambda: console.get(place).json()["state"] == "stopped", what="the end of the change")
    recorded.database.run(
        "UPDATE openoutbox_changes SET state = 'running', error = NULL, updated_at = now() - interval '121 s'"
    )
    assert console.get(place).json()["state"] == "interrupted"
    rest = console.post(f"{API}/changes", json=REPLAY, headers=key()).json()
    place = f"{API}/changes/{rest['change_id']}"
    wait_until(lambda: console.get(place).json()["state"] == "complete", what="the rest")
    assert (console.get(place).json()["events"], recorded.counts()) == (4, {"PENDING": 5})


def test_a_change_is_stopped_from_another_console(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 3)
    place = begun(client_of(recorded.url_of("console")), SLOW, key())
    assert console.post(f"{place}/stop").json()["error"] == "stopped by local"
    assert console.post(f"{place}/stop").status_code == 200
    wait_until(lambda: console.get(place).json()["state"] == "stopped", what="the stop")
    assert recorded.database.run(RECORD)[0][1:] == (1, "stopped by local")


def test_a_change_whose_console_was_killed_is_stopped_from_another(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 3)
    with ConsoleProcess(recorded.url_of("console")) as process:
        process.wait_ready()
        change = httpx.post(f"{process.address}{API}/changes", json=SLOW, headers=key()).json()
        place = f"{API}/changes/{change['change_id']}"
        wait_until(lambda: console.get(place).json()["events"] == 1, what="the first event of the change")
        process.kill()
        assert console.post(f"{place}/stop").json()["error"] == "stopped by local"
        assert console.post(f"{place}/stop").status_code == 200
        recorded.database.run("UPDATE openoutbox_changes SET updated_at = now() - interval '3 minutes'")
        wait_until(lambda: console.get(place).json()["state"] == "stopped", what="the stop")
        assert recorded.database.run(RECORD)[0][1:] == (1, "stopped by local")
