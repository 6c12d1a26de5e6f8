"""The admin API on a real outbox: what it shows, what it changes, and what it refuses."""

from __future__ import annotations

import base64
import re
from typing import Any
from uuid import uuid4

import pytest
from httpx import Response

from relay.settings.settings import Settings
from relay.settings.shown import settings_json
from tests.console.conftest import ConsoleClient, client_of
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import wait_until

API = "/api/v1"
_RELAY = """
INSERT INTO openoutbox_relays (
    instance, relay_id, version, host, state, destination_type, destination, lease_timeout, ordering, on_delivered,
    settings
) VALUES (gen_random_uuid(), %s, '1.0', 'host', 'active', 'null', '', 180, 'none', 'keep', %s)
"""
JSON = {"Content-Type": "application/json"}
REPLAY = {"action": "replay", "selection": {"status": ["dead"]}}


def key() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid4())}


def problem(response: Response) -> tuple[int, str]:
    """Status and kind of a problem, which is one by RFC 9457."""
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == response.status_code
    assert body["title"]
    assert body["detail"]
    return response.status_code, body["type"].removeprefix("urn:openoutbox:problem:")


def first(console: ConsoleClient, **query: str) -> dict[str, Any]:
    event: dict[str, Any] = console.get(f"{API}/events", params=query).json()["items"][0]
    return event


def test_it_lists_page_by_page_and_shows_one_event(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 5)
    [id_] = recorded.insert([Row("t", b'{"n": 1}', "k", '{"a": 12345678901234567890123}')])
    page = console.get(f"{API}/events", params={"limit": 4}).json()
    assert [item["status"] for item in page["items"]] == ["PENDING", "DEAD", "DEAD", "DEAD"]
    rest = console.get(f"{API}/events", params={"limit": 4, "cursor": page["next"]}).json()
    assert [item["event_type"] for item in rest["items"]] == ["DEAD-4", "DEAD-5"]
    assert rest["next"] is None
    back = console.get(f"{API}/events", params={"limit": 4, "cursor": rest["prev"]}).json()
    assert (back["items"], back["prev"], page["prev"]) == (page["items"], None, None)
    one = console.get(f"{API}/events/{id_}")
    event = one.json()
    assert (event["payload"], event["payload_encoding"]) == ('{"n": 1}', "utf-8")
    assert event["headers"] == {"a": 12345678901234567890123}
    assert re.fullmatch(r'"\d+\.admin\.[0-9a-f]+"', one.headers["etag"])


def test_a_payload_that_is_no_text_is_shown_in_base64(recorded: Outbox) -> None:
    ids = recorded.insert([Row("t", b"\xff\x00secret")])
    shown = client_of(recorded.url_of("console")).get(f"{API}/events/{ids[0]}").json()
    assert (base64.b64decode(shown["payload"]), shown["payload_encoding"]) == (b"\xff\x00secret", "base64")


def test_figures_dead_letters_and_prunable_events(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 3)
    fill_aged(recorded, "DELIVERED", 200)
    recorded.database.run(
        "UPDATE openoutbox_events SET event_type = 'x', last_error = 'E: ' || event_id WHERE status = 'DEAD'"
    )
    recorded.insert([Row("t")])
    stats = console.get(f"{API}/stats").json()
    assert (stats["pending_count"], stats["dead_count"], stats["in_flight_count"]) == (1, 3, 0)
    dead = console.get(f"{API}/dead-letters").json()
    [group] = dead["items"]
    assert (group["event_type"], group["error"], group["events"]) == ("x", "E", 3)
    assert (dead["examined"], dead["complete"]) == (3, True)
    preview = console.get(f"{API}/prune-preview").json()
    assert preview == {"delivered": 33, "dead": 0, "exact": True, "at": preview["at"]}


def test_types_have_their_pace_latency_backlog_and_dead_events(console: ConsoleClient, recorded: Outbox) -> None:
    recorded.insert([Row("t"), Row("t"), Row("u")])
    recorded.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() WHERE event_type = 'u'"
    )
    console.post(f"{API}/pauses", json={"scope": "type", "name": "t"}, headers=key())
    answer = console.get(f"{API}/types").json()
    waiting, delivered = answer["items"]
    assert (waiting["event_type"], waiting["waiting"], waiting["paused"], waiting["p50"]) == ("t", 2, True, None)
    assert (delivered["event_type"], delivered["paused"], delivered["delivered"]["last_minute"]) == ("u", False, 1.0)
    assert 0 <= delivered["p50"] <= delivered["p99"] < 60
    assert [answer[name]["rows"] for name in ("delivered", "waiting", "dead")] == [1, 2, 0]


def test_an_action_is_checked_done_once_and_recorded(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 1)
    event = first(console)
    path = f"{API}/events/{event['event_id']}/replay"
    version = {"If-Match": console.get(f"{API}/events/{event['event_id']}").headers["etag"]}
    assert console.post(path, json={"dry_run": True}).json() == {"dry_run": True, "events": 1, "exact": True}
    assert recorded.counts() == {"DEAD": 1}
    headers = key() | version
    done = console.post(path, json={"reason": "fixed"}, headers=headers)
    assert (done.status_code, done.json()["state"], done.json()["changed_by"]) == (200, "complete", "local")
    assert recorded.counts() == {"PENDING": 1}
    assert console.post(path, json={"reason": "fixed"}, headers=headers).json() == done.json()
    assert problem(console.post(path, json={}, headers=key() | version)) == (412, "event-moved")
    assert console.get(f"{API}/changes").json()["items"] == [done.json()]
    assert console.get(f"{API}/changes/{done.json()['change_id']}").json() == done.json()


def test_a_group_of_dead_letters_is_replayed_at_a_rate_and_can_be_followed(
    console: ConsoleClient, recorded: Outbox
) -> None:
    fill_aged(recorded, "DEAD", 30)
    recorded.database.run("UPDATE openoutbox_events SET last_error = 'OTHER: y' WHERE event_type ~ '[05]$'")
    body = {"action": "replay", "selection": {"error_code": "FATAL"}, "rate": 100, "reason": "fixed"}
    dry = console.post(f"{API}/changes", json=body | {"dry_run": True})
    assert (dry.status_code, dry.json()) == (
        200,
        {"dry_run": True, "events": 24, "exact": True, "at": dry.json()["at"]},
    )
    headers = key()
    begun = console.post(f"{API}/changes", json=body, headers=headers)
    assert (begun.status_code, begun.json()["expected"]) == (202, 24)
    place = begun.headers["location"]
    wait_until(lambda: console.get(place).json()["state"] == "complete", what="the replay")
    assert console.get(place).json()["events"] == 24
    assert console.get(place).json()["selection"] == {
        "error_code": "FATAL",
        "status": ["dead"],
        "limit": None,
        "rate": 100.0,
    }
    assert recorded.counts() == {"PENDING": 24, "DEAD": 6}
    again = console.post(f"{API}/changes", json=body, headers=headers)
    assert again.json()["change_id"] == begun.json()["change_id"]


def test_a_search_takes_the_code_of_a_group_and_refuses_a_parameter_that_does_not_exist(
    console: ConsoleClient, recorded: Outbox
) -> None:
    fill_aged(recorded, "DEAD", 5)
    recorded.database.run("UPDATE openoutbox_events SET last_error = 'E2: FATAL: y' WHERE event_type = 'DEAD-5'")
    found = console.get(f"{API}/events", params={"error_code": "FATAL"}).json()["items"]
    assert [event["event_type"] for event in found] == ["DEAD-1", "DEAD-2", "DEAD-3", "DEAD-4"]
    misspelt = console.get(f"{API}/events", params={"eror_code": "FATAL"})
    assert problem(misspelt) == (422, "invalid-request")


def test_a_replay_stops_after_its_batch(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 40)
    begun = console.post(f"{API}/changes", json=REPLAY | {"rate": 5}, headers=key()).json()
    assert console.post(f"{API}/changes/{begun['change_id']}/stop").status_code == 200
    place = f"{API}/changes/{begun['change_id']}"
    wait_until(lambda: console.get(place).json()["state"] == "stopped", what="the stop")
    assert console.get(place).json()["events"] == recorded.counts()["PENDING"] < 40


@pytest.mark.parametrize(
    ("action", "state"),
    [
        ("bury", ("DEAD", "BURIED: by local: wrong import")),
        ("retry", ("PENDING", None)),
    ],
)
def test_waiting_events_are_changed_as_they_were_counted(
    console: ConsoleClient, recorded: Outbox, action: str, state: tuple[str, str | None]
) -> None:
    recorded.fill("t", 30)
    recorded.database.run("UPDATE openoutbox_events SET available_at = now() + interval '1 hour'")
    recorded.fill("other", 3)
    body = {"action": action, "selection": {"event_type": "t"}, "reason": "wrong import"}
    dry = console.post(f"{API}/changes", json=body | {"dry_run": True}).json()
    assert dry["events"] == 30
    recorded.database.run("UPDATE openoutbox_events SET updated_at = now() WHERE event_id IN "
                          "(SELECT event_id FROM openoutbox_events WHERE event_type = 't' LIMIT 2)")  # fmt: skip
    body["selection"] = {"event_type": "t", "unchanged_since": dry["at"]}
    begun = console.post(f"{API}/changes", json=body, headers=key())
    place = begun.headers["location"]
    wait_until(lambda: console.get(place).json()["state"] == "complete", what="the change")
    change = console.get(place).json()
    assert (change["action"], change["events"], change["expected"]) == (action, 28, 28)
    assert change["selection"]["status"] == ["pending"]
    changed = "event_type = 't' AND (status = 'DEAD' OR available_at <= now())"
    rows = recorded.database.run(f"SELECT status, last_error FROM openoutbox_events WHERE {changed}")
    assert rows == [state] * 28


def test_many_cancelled_events_are_kept_with_their_change(console: ConsoleClient, recorded: Outbox) -> None:
    recorded.database.run("GRANT DELETE ON openoutbox_events TO openoutbox_console")
    recorded.fill("t", 30)
    recorded.database.run("UPDATE openoutbox_events SET available_at = now() + interval '1 hour'")
    recorded.fill("other", 3)
    body = {"action": "cancel", "selection": {"event_type": "t"}}
    place = console.post(f"{API}/changes", json=body, headers=key()).headers["location"]
    wait_until(lambda: console.get(place).json()["state"] == "complete", what="the change")
    change = console.get(place).json()
    assert (change["events"], change["may_have_been_sent"]) == (30, 0)
    assert recorded.counts() == {"PENDING": 3}
    kept = recorded.database.run("SELECT change_id::text, count(*) FROM openoutbox_cancelled GROUP BY change_id")
    assert kept == [(change["change_id"], 30)]


@pytest.mark.parametrize(
    ("method", "path", "arguments", "expected"),
    [
        ("GET", "/events/0190b0a0-0000-7000-8000-000000000001", {}, (404, "event-missing")),
        ("GET", "/changes/0190b0a0-0000-7000-8000-000000000001", {}, (404, "change-missing")),
        ("GET", "/events/x", {}, (422, "invalid-request")),
        ("GET", "/nothing", {}, (404, "not-found")),
        ("DELETE", "/events", {}, (405, "method-not-allowed")),
        ("GET", "/events", {"params": {"cursor": "x"}}, (400, "invalid-cursor")),
        ("GET", "/changes", {"params": {"cursor": "x"}}, (400, "invalid-cursor")),
        ("GET", "/changes", {"params": {"cursor": "9" * 5000}}, (400, "invalid-cursor")),
        ("GET", "/events", {"params": {"statos": "DEAD"}}, (422, "invalid-request")),
        ("GET", "/events", {"params": {"since": "2026-01-01"}}, (422, "invalid-request")),
        ("POST", "/changes", {"content": b"{", "headers": JSON}, (422, "invalid-request")),
        ("POST", "/changes", {"content": b"[" * 200_000, "headers": JSON}, (400, "bad-request")),
        ("POST", "/changes", {"content": b'"' + b"a" * 2**18, "headers": JSON}, (413, "too-large")),
        ("POST", "/changes", {"json": REPLAY}, (400, "idempotency-key-missing")),
        (
            "POST",
            "/changes",
            {"json": {"action": "bury", "selection": {}}, "headers": {"Idempotency-Key": "a"}},
            (422, "invalid-request"),
        ),
        (
            "POST",
            "/changes",
            {"json": {"action": "bury", "selection": {"status": ["dead"]}}, "headers": {"Idempotency-Key": "a"}},
            (422, "invalid-request"),
        ),
        ("POST", "/changes", {"json": {"action": "bury", "selection": {"typ": "x"}}}, (422, "invalid-request")),
    ],
)
def test_errors_are_problems(
    unchanged: ConsoleClient, method: str, path: str, arguments: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert problem(unchanged.request(method, f"{API}{path}", **arguments)) == expected


def test_without_the_record_nothing_is_changed(outbox: Outbox) -> None:
    fill_aged(outbox, "DEAD", 2)
    console = client_of(outbox.url_of("console"))
    event = first(console)
    refused = console.post(f"{API}/events/{event['event_id']}/replay", json={}, headers=key())
    assert problem(refused) == (503, "record-missing")
    assert "relay-cli migrate --table openoutbox_events --with console" in refused.json()["detail"]
    assert problem(console.post(f"{API}/changes", json=REPLAY, headers=key())) == (503, "record-missing")
    assert outbox.counts() == {"DEAD": 2}


def test_a_database_that_does_not_answer_is_a_problem() -> None:
    console = client_of("postgres://u@127.0.0.1:1/d")
    assert problem(console.get(f"{API}/stats")) == (503, "database-unavailable")
    assert console.get("/healthz").status_code == 200


def test_a_type_is_paused_and_resumed_once_for_a_key(console: ConsoleClient, recorded: Outbox) -> None:
    body = {"scope": "type", "name": "t", "until": "2999-01-01T00:00:00Z", "reason": "repair"}
    headers = key()
    paused = console.post(f"{API}/pauses", json=body, headers=headers)
    assert (paused.json()["action"], paused.json()["state"], paused.json()["events"]) == ("pause", "complete", 1)
    [pause] = console.get(f"{API}/pauses").json()["items"]
    assert (pause["scope"], pause["name"], pause["paused_by"], pause["reason"]) == ("type", "t", "local", "repair")
    resumed = console.post(f"{API}/pauses/resume", json={"scope": "type", "name": "t"}, headers=key())
    assert resumed.json()["events"] == 1
    again = console.post(f"{API}/pauses", json=body, headers=headers)
    assert again.json()["change_id"] == paused.json()["change_id"]
    assert console.get(f"{API}/pauses").json() == {"items": []}
    late = {**body, "until": "2020-01-01T00:00:00Z"}
    assert problem(console.post(f"{API}/pauses", json=late, headers=key())) == (422, "invalid-request")
    wrong = {"scope": "all", "name": "t"}
    assert problem(console.post(f"{API}/pauses", json=wrong, headers=key())) == (422, "invalid-request")
    states = [(change["action"], change["state"]) for change in console.get(f"{API}/changes").json()["items"]]
    assert states == [("resume", "complete"), ("pause", "complete")]


def test_every_pause_ends_at_once_and_once_for_a_key(console: ConsoleClient, recorded: Outbox) -> None:
    del recorded
    for body in ({"scope": "all"}, {"scope": "type", "name": "t"}, {"scope": "prefix", "name": "order."}):
        assert console.post(f"{API}/pauses", json=body, headers=key()).status_code == 200
    headers = key()
    resumed = console.post(f"{API}/pauses/resume-all", json={"reason": "repaired"}, headers=headers)
    assert (resumed.json()["action"], resumed.json()["events"], resumed.json()["reason"]) == ("resume", 3, "repaired")
    assert console.get(f"{API}/pauses").json() == {"items": []}
    console.post(f"{API}/pauses", json={"scope": "all"}, headers=key())
    again = console.post(f"{API}/pauses/resume-all", json={"reason": "repaired"}, headers=headers)
    assert again.json()["change_id"] == resumed.json()["change_id"]
    assert len(console.get(f"{API}/pauses").json()["items"]) == 1


def test_without_their_extensions_pauses_and_relays_say_what_to_run(outbox: Outbox) -> None:
    console = client_of(outbox.url_of("console"))
    for path, extension in (("pauses", "pause"), ("fleet", "fleet"), ("settings", "fleet"), ("series", "series")):
        answer = console.get(f"{API}/{path}")
        assert problem(answer) == (503, "extension-missing")
        assert f"relay-cli migrate --table openoutbox_events --with {extension}" in answer.json()["detail"]
    assert "--with fleet" in console.get("/fleet").text


def test_the_series_has_every_minute_and_longer_steps_for_longer_times(
    console: ConsoleClient, recorded: Outbox
) -> None:
    recorded.database.run(
        "INSERT INTO openoutbox_series SELECT date_trunc('minute', now()) - make_interval(mins => n), '', 2, 1, 0, 0.5 "
        "FROM generate_series(0, 10079) AS n"
    )
    hour = console.get(f"{API}/series").json()
    assert (hour["step_minutes"], len(hour["items"])) == (1, 61)
    assert {(one["delivered"], one["failed"], one["counted"]) for one in hour["items"][:-1]} == {(2, 1, 1)}
    week = console.get(f"{API}/series?minutes=10080").json()
    assert (week["step_minutes"], len(week["items"])) == (28, 361)
    # The current minute is not counted; it may have ended since it was written.
    assert sum(one["delivered"] for one in week["items"]) in {2 * 10_079, 2 * 10_080}
    none = console.get(f"{API}/series?event_type=other").json()["items"]
    assert {(one["delivered"], one["counted"]) for one in none[:-1]} == {(0, 1)}
    assert console.get(f"{API}/series?minutes=10081").status_code == 422


def test_the_settings_of_the_relays_and_where_they_differ(console: ConsoleClient, recorded: Outbox) -> None:
    environ = {"STORAGE_URL": "postgres://u:48151@h/d", "PUBLISHER_TYPE": "null", "BATCH_SIZE": "500"}
    for name, changes in (("relay-0", {}), ("relay-1", {"BATCH_SIZE": "200"}), ("relay-2", {})):
        settings = settings_json(Settings.from_env(environ | changes | {"RELAY_ID": name}))
        recorded.database.run(_RELAY, [name, settings])
    answer = console.get(f"{API}/settings").json()
    relay = answer["items"][1]
    assert (relay["relay_id"], relay["settings"]["BATCH_SIZE"]) == ("relay-1", {"value": "200", "changed": True})
    assert relay["settings"]["STORAGE_URL"] == {"value": "postgres://u:***@h/d", "changed": True}
    assert [each["name"] for each in answer["differences"]] == ["BATCH_SIZE", "MAX_IN_FLIGHT"]
    assert answer["differences"][0]["values"] == [
        {"value": "500", "relays": ["relay-0", "relay-2"]},
        {"value": "200", "relays": ["relay-1"]},
    ]
    page = console.get("/settings").text
    assert "BATCH_SIZE" in page
    assert "POLL_INTERVAL" not in page
    every = console.get("/settings", params={"all": "true"}).text
    assert "POLL_INTERVAL" in every
    assert "48151" not in page + every
