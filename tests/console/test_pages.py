"""The pages as HTML: what they show, what their forms do, and how they answer nonsense."""

from __future__ import annotations

import json
import re
import time
from html import unescape
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

import httpx
import pytest

from relay.console.static import STATIC
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import application_name
from relay.postgres.sql import TableName
from tests.console.access.making import token, tokens_file
from tests.console.conftest import ConsoleClient, client_of
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import wait_until

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def text_of(response: httpx.Response) -> str:
    """The words of a page."""
    assert response.headers["content-type"].startswith("text/html")
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.text)).split())


def send(console: ConsoleClient, path: str, **fields: str) -> httpx.Response:
    return console.post(path, content=urlencode({"idempotency_key": str(uuid4())} | fields), headers=FORM)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/events",
        "/dead",
        "/changes/new?action=replay&event_type=x",
        "/prune",
        "/types",
        "/types/pause?event_type=x",
        "/settings",
        "/settings?all=true",
        "/changes",
        f"{STATIC}/console.js",
    ],
)
def test_every_page_answers_on_an_empty_outbox_with_a_strict_policy(console: ConsoleClient, path: str) -> None:
    response = console.get(path)
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


def test_what_an_event_holds_is_shown_and_never_run(console: ConsoleClient, recorded: Outbox) -> None:
    attack = "<script>alert(1)</script>"
    [id_] = recorded.insert([Row(f"t{attack}", attack.encode(), f'k"{attack}', '{"h": "<b>"}')])
    for path in (f"/events/{id_}", "/events", "/"):
        page = console.get(path)
        assert page.status_code == 200
        assert attack not in page.text
        assert "<b>" not in page.text
    assert attack in text_of(console.get(f"/events/{id_}"))
    found = console.get("/events", params={"event_type": f"t{attack}"})
    assert id_ in found.text
    assert console.get("/events", params={"event_id": id_}).headers["location"] == f"/events/{id_}"


def test_payload_and_headers_are_shown_as_they_are_stored(console: ConsoleClient, recorded: Outbox) -> None:
    payload = r'{"price":1.10,"price":1e400,"half":"\ud800"}'
    number = "0.1000000000000000055511151231257827"
    [id_] = recorded.insert([Row("t", payload.encode(), "k", f'{{"exact": {number}, "inner": {{"a": [{number}]}}}}')])
    shown = unescape(console.get(f"/events/{id_}").text)
    assert [part for part in ('"price": 1.10,', '"price": 1e400,', r'"half": "\ud800"') if part not in shown] == []
    assert f"<dd>{number}</dd>" in shown
    assert f'<dd>{{"a": [{number}]}}</dd>' in shown
    answer = console.get(f"/api/v1/events/{id_}")
    assert f'"headers":{{"exact": {number}, "inner": {{"a": [{number}]}}}}' in answer.text
    assert answer.json()["payload"] == payload


def test_the_overview_has_failed_attempts_by_type(console: ConsoleClient, recorded: Outbox) -> None:
    for event_type, status, attempts, later, hours in (
        ("order.paid", "DELIVERED", 2, 0, 0),
        ("order.paid", "DELIVERED", 0, 0, 0),
        ("order.paid", "DELIVERED", 7, 0, 2),
        ("order.paid", "DEAD", 25, 0, 0),
        ("order.paid", "PENDING", 3, 1, 0),
        ("user.left", "PENDING", 4, 1, 0),
        ("failed.before", "PENDING", 4, 9, 2),
        ("scheduled", "PENDING", 0, 1, 0),
    ):
        recorded.database.run(
            "INSERT INTO openoutbox_events (event_id, event_type, payload, status, attempts, available_at, updated_at, "
            "delivered_at) SELECT gen_random_uuid(), %s, '', %s, %s, now() + make_interval(hours => %s), at, "
            "CASE %s WHEN 'DELIVERED' THEN at END FROM (SELECT now() - make_interval(hours => %s)) AS past (at)",
            [event_type, status, attempts, later, status, hours],
        )
    [table] = re.findall(r'(?s)id="types".*?<table.*?<tbody>(.*?)</tbody>', console.get("/").text)
    lines = [" ".join(re.sub(r"<[^>]+>", " ", line).split()) for line in table.split("</tr>")[:-1]]
    assert lines == ["order.paid 2 30 1", "user.left 0 4 0"]


def test_the_overview_says_zero_for_the_minutes_since_the_last_delivery(
    console: ConsoleClient, recorded: Outbox
) -> None:
    recorded.fill("t", 81)
    recorded.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '30 minutes', "
        "updated_at = now() - interval '30 minutes'"
    )
    page = console.get("/")
    assert "Delivered last minute 0 " in text_of(page)
    [text] = re.findall(r"data-plot=\"([^\"]+)\"", page.text)
    plot = json.loads(unescape(text))
    assert len(plot["times"]) == len(plot["events"]) == 60
    assert max(plot["times"]) > time.time() - 150
    assert [events for events in plot["events"] if events] == [81]


def test_the_overview_counts_what_a_pause_holds_and_suspects_no_broker(
    console: ConsoleClient, recorded: Outbox
) -> None:
    def insert_due(event_type: str, minutes: int) -> None:
        recorded.database.run(
            "INSERT INTO openoutbox_events (event_id, event_type, payload, available_at) "
            "VALUES (gen_random_uuid(), %s, '', now() - make_interval(mins => %s))",
            [event_type, minutes],
        )
        console.app.state.console.readings.forget()

    with recorded.database.connect() as relay:
        relay.execute("SELECT set_config('application_name', %s, FALSE)", [application_name("relay-0")])
        insert_due("user.signup", 50)
        assert send(console, "/pauses", scope="type", name="user.signup", reason="repair").status_code == 303
        text = text_of(console.get("/"))
        assert re.search(r"Event type user.signup is paused by \S+ since \S+Z: repair; 1 due event waits", text)
        assert "Nothing is in flight" not in text
        assert "Lag 0 s" in text
        insert_due("user.left", 5)
        text = text_of(console.get("/"))
        assert "Nothing is in flight: 2 events wait, the oldest has been due for 5 min" in text
        assert "Lag 5 min" in text


def test_an_event_says_why_it_is_not_delivered_in_the_words_of_the_api(
    console: ConsoleClient, recorded: Outbox
) -> None:
    add_extension(recorded.owner_url, TableName(), "key-order")
    first, second = recorded.insert([Row("a", partition_key="k"), Row("b", partition_key="k")])
    recorded.database.run(
        "INSERT INTO openoutbox_relays (instance, relay_id, version, host, state, destination_type, destination, "
        "lease_timeout, ordering, on_delivered) "
        "VALUES (gen_random_uuid(), 'relay-0', '1', 'h', 'active', 'kafka', 'f', 180, 'key', 'keep')"
    )
    path = f"/api/v1/events/{second}"
    answer = console.get(path)
    why = answer.json()["why"]
    assert why["sentence"] == f"It waits behind event {first} of its key, which is PENDING."
    assert (why["blocker"], why["also"]) == ({"kind": "event", "name": first}, [])
    page = console.get(f"/events/{second}")
    assert f"{why['sentence']} {why['step']}" in text_of(page)
    assert f'href="/events/{first}"' in page.text
    send(console, "/pauses", scope="type", name="b")
    changed = console.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (changed.status_code, changed.json()["why"]["cause"]) == (200, "pause")
    bury = {"Idempotency-Key": "a", "If-Match": answer.headers["etag"]}
    assert console.post(f"{path}/bury", json={}, headers=bury).status_code == 200


def test_the_search_goes_forth_and_back(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 120)

    def shown(path: str) -> list[str]:
        return re.findall(r'href="/events/([^"]+)"', console.get(path).text)

    def link(path: str, name: str) -> str:
        [address] = re.findall(rf'rel="{name}" href="([^"]+)"', console.get(path).text)
        return unescape(address)

    path = "/events?status=DEAD"
    second = link(path, "next")
    third = link(second, "next")
    assert shown(link(third, "prev")) == shown(second)
    assert shown(link(link(third, "prev"), "prev")) == shown(path)
    assert 'rel="next"' not in console.get(third).text


def test_the_events_of_a_group_are_those_that_its_replay_takes(console: ConsoleClient, recorded: Outbox) -> None:
    recorded.insert([Row("t", str(number).encode()) for number in range(4)])
    recorded.database.run(
        "UPDATE openoutbox_events SET status = 'DEAD', last_error = CASE convert_from(payload, 'UTF8') "
        "WHEN '0' THEN 'E' WHEN '1' THEN 'E: x' WHEN '2' THEN 'E2: not E' END"
    )
    groups = re.findall(r'<li class="finding(.*?)</li>', console.get("/dead").text, re.DOTALL)
    assert len(groups) == 4
    for group in groups:
        show, replay = (unescape(address) for address in re.findall(r'href="(/[^"]+)"', group))
        listed = len(re.findall(r'href="/events/[^"]+"', console.get(show).text))
        assert f"{listed} event" in text_of(console.get(replay))
        assert listed == 1


def test_a_form_changes_the_event_that_it_showed(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 1)
    [(id_,)] = recorded.rows("event_id")
    page = console.get(f"/events/{id_}").text
    [version] = re.findall(r'name="version" value="([^"]+)"', page)
    done = send(console, f"/events/{id_}/replay", version=unescape(version), reason="again")
    assert (done.status_code, done.headers["location"]) == (303, f"/events/{id_}?done=replay")
    assert recorded.counts() == {"PENDING": 1}
    late = send(console, f"/events/{id_}/bury", version=unescape(version))
    assert late.status_code == 412
    assert "was changed after you saw it" in text_of(late)
    assert "again" in text_of(console.get("/changes"))


def test_all_events_of_a_search_are_changed_as_the_form_counted_them(console: ConsoleClient, recorded: Outbox) -> None:
    recorded.fill("t", 9)
    recorded.database.run("UPDATE openoutbox_events SET available_at = now() + interval '1 hour', last_error = 'E: no'")
    recorded.fill("other", 2)
    search = "/events?status=PENDING&event_type=t&error=e%3A"
    links = {unescape(address) for address in re.findall(r'href="(/changes/new[^"]+)"', console.get(search).text)}
    actions = ("retry", "bury", "cancel")
    assert links == {f"/changes/new?action={action}&status=PENDING&event_type=t&error=e%3A" for action in actions}
    assert "/changes/new" not in console.get("/events?event_type=t").text
    confirm = console.get(f"/changes/new?action=bury&{search.partition('?')[2]}")
    assert "9 events" in text_of(confirm)
    [form] = re.findall(r"(?s)<form[^>]* action=\"/changes\".*?</form>", confirm.text)
    hidden = {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}
    recorded.database.run(
        "UPDATE openoutbox_events SET updated_at = now() "
        "WHERE event_id = (SELECT event_id FROM openoutbox_events WHERE event_type = 't' LIMIT 1)"
    )
    begun = send(console, "/changes", **hidden, rate="500", limit="5", reason="wrong import")
    assert begun.status_code == 303
    place = begun.headers["location"]
    words = r"at most 5, 500 a second, .*unchanged since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    assert re.search(words, text_of(console.get(place)))
    wait_until(lambda: "complete" in text_of(console.get(place)), what="the change")
    assert recorded.counts() == {"DEAD": 5, "PENDING": 6}
    rest = send(console, "/changes", **(hidden | {"idempotency_key": str(uuid4())}), reason="wrong import")
    wait_until(lambda: "complete" in text_of(console.get(rest.headers["location"])), what="the change")
    assert recorded.counts() == {"DEAD": 8, "PENDING": 3}


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/events?cursor=x", 400, "is not from a page of a search"),
        ("/events?since=yesterday", 422, "is not a time"),
        ("/events?status=LOST", 422, "is not a status"),
        ("/events?event_id=7", 422, "is not the id of an event"),
        ("/changes/new?action=bury&status=DEAD", 422, "bury takes pending events, not dead ones"),
        ("/changes/new?action=bury&status=LOST", 422, "should be 'pending', 'dead' or 'delivered'"),
        ("/changes/new?action=lose", 422, "'retry', 'replay', 'bury' or 'cancel'"),
        ("/changes/new?action=bury&event_type=%00", 422, "String should match pattern"),
        ("/events?event_type=%00", 422, "NUL"),
        ("/events/0190b0a0-0000-7000-8000-000000000001", 404, "There is no event"),
        ("/nothing", 404, "Not found"),
    ],
)
def test_errors_are_pages(unchanged: ConsoleClient, path: str, status: int, message: str) -> None:
    response = unchanged.get(path)
    assert response.status_code == status
    assert message in text_of(response)


def test_a_database_that_does_not_answer_is_a_page() -> None:
    response = client_of("postgres://u@127.0.0.1:1/d").get("/")
    assert response.status_code == 503
    assert "Database unavailable" in text_of(response)


def test_a_type_is_paused_and_resumed_from_its_line(console: ConsoleClient, recorded: Outbox) -> None:
    recorded.insert([Row("user.signup"), Row("user.left")])
    paused = send(console, "/pauses", scope="type", name="user.signup", back="/types", reason="repair")
    assert (paused.status_code, paused.headers["location"]) == (303, "/types")
    page = console.get("/types")
    assert page.text.count("by local since") == page.text.count(">Resume<") == page.text.count(">Pause<") == 1
    assert "the 10,000 events" not in text_of(page)
    recorded.database.run("DELETE FROM openoutbox_events WHERE event_type = 'user.signup'")
    console.app.state.console.readings.forget()
    assert "user.signup paused No event in the samples." in text_of(console.get("/types"))
    assert send(console, "/pauses/resume", scope="type", name="user.signup", back="/types").status_code == 303
    assert "user.signup" not in console.get("/types").text
    elsewhere = send(console, "/pauses", scope="type", name="t", back="//another.example")
    assert elsewhere.status_code == 422


def test_one_button_ends_every_pause_when_there_are_several(console: ConsoleClient, recorded: Outbox) -> None:
    del recorded
    send(console, "/pauses", scope="type", name="user.signup")
    assert "Resume everything" not in console.get("/fleet").text
    send(console, "/pauses", scope="all")
    assert "Resume everything" in console.get("/fleet").text
    assert send(console, "/pauses/resume-all").status_code == 303
    assert "Nothing is paused." in text_of(console.get("/fleet"))
    assert "every pause" in text_of(console.get("/changes"))


def test_a_reader_sees_no_payload_and_no_action(recorded: Outbox, tmp_path: Path) -> None:
    [id_] = recorded.insert([Row("t", b"the secret", "k", '{"name": "the header"}')])
    console = client_of(recorded.url_of("console"), CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    paths = (f"/events/{id_}", f"/api/v1/events/{id_}")
    assert [console.get(path).status_code for path in paths] == [401, 401]
    reader, operator = ({"Authorization": f"Bearer {token(f'{role}-token')}"} for role in ("reader", "operator"))
    hidden = [console.get(path, headers=reader).text for path in paths]
    assert all("the secret" not in text and "the header" not in text for text in hidden)
    assert "<button" not in hidden[0].partition("<main")[2]
    shown = [console.get(path, headers=operator).text for path in paths]
    assert all("the secret" in text and "the header" in text for text in shown)
    refused = console.post(f"{paths[1]}/bury", json={}, headers={**reader, "Idempotency-Key": "a"})
    assert refused.status_code == 403
    assert recorded.counts() == {"PENDING": 1}


def test_the_overview_draws_what_relays_counted_beside_what_the_outbox_still_holds(
    console: ConsoleClient, recorded: Outbox
) -> None:
    recorded.fill("t", 5)
    recorded.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '9 minutes'"
    )
    assert "failures" not in plot_of_overview(console)
    recorded.database.run(
        "INSERT INTO openoutbox_series SELECT date_trunc('minute', now()) - interval '30 minutes', kind, 7, 3, 1, lag "
        "FROM (VALUES ('', 12.5), ('a', 0)) AS counted (kind, lag)"
    )
    plot = plot_of_overview(console)
    assert [events for events in plot["events"] if events] == [14, 5]
    assert [failures for failures in plot["failures"] if failures] == [6]
    assert "19 in the last hour; 6 failed attempts, longest lag 12.5 s" in text_of(console.get("/"))


def plot_of_overview(console: ConsoleClient) -> dict[str, list[float]]:
    console.app.state.console.readings.forget()
    [text] = re.findall(r"data-plot=\"([^\"]+)\"", console.get("/").text)
    plot: dict[str, list[float]] = json.loads(unescape(text))
    return plot
