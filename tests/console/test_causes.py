"""Causes in the API: what is shown of one, what is found of it and what is changed are the same events."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from openoutbox import Message, inbox
from relay.console.api.causes import CauseItems
from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.console.access.making import tokens_file
from tests.console.access.sample import bearer
from tests.console.conftest import ConsoleClient, client_of
from tests.console.test_api import API, key, problem
from tests.console.test_pages import text_of
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.waiting import wait_until


def test_what_a_cause_counts_is_found_and_changed(console: ConsoleClient, recorded: Outbox) -> None:
    fill_aged(recorded, "DEAD", 9)
    recorded.database.run("UPDATE openoutbox_events SET last_error = 'FATAL: other' WHERE partition_key < 'key-4'")
    answer = console.get(f"{API}/causes").json()
    assert (answer["complete"], answer["sample"]) == (True, "")
    CauseItems.model_validate(answer)  # the route itself looks at no value
    assert {"dead", "relays"} == {finding["subject"] for finding in answer["findings"]}
    assert [(cause["error"], cause["dead"]) for cause in answer["causes"]] == [("no #", 6), ("other", 3)]
    name = answer["causes"][1]["cause"]
    listed = console.get(f"{API}/events", params={"cause": name}).json()
    assert len(listed["items"]) == 3
    body = {"action": "replay", "selection": {"cause": name}}
    assert console.post(f"{API}/changes", json={**body, "dry_run": True}).json()["events"] == 3
    change = console.post(f"{API}/changes", json=body, headers=key()).json()
    assert (change["expected"], change["selection"]["cause"]) == (3, name)
    wait_until(lambda: recorded.counts() == {"PENDING": 3, "DEAD": 6}, what="the replay")
    assert problem(console.get(f"{API}/events", params={"cause": "FATAL"})) == (422, "invalid-request")
    assert problem(console.post(f"{API}/changes", json={"action": "replay", "selection": {"cause": "x"}})) == (
        422,
        "invalid-request",
    )


def test_every_cause_that_overview_leaves_out_is_on_the_page_that_it_names(
    console: ConsoleClient, recorded: Outbox
) -> None:
    recorded.insert([Row("t", b"x" * number) for number in range(1, 11)])
    recorded.database.run(
        "UPDATE openoutbox_events SET attempts = 1, available_at = now() + interval '1 hour', "
        "last_error = 'E' || length(payload) || ': no', "
        "status = CASE WHEN length(payload) < 3 THEN 'DEAD' ELSE 'PENDING' END"
    )
    assert "2 more causes: Dead letters" in text_of(console.get("/"))
    page = console.get("/dead").text
    listed = [unescape(address) for address in re.findall(r'href="(/(?:events|changes/new)\?[^"]+)"', page)]
    assert len(listed) == 20
    for show, change in zip(listed[::2], listed[1::2], strict=True):
        assert len(re.findall(r'href="/events/[^"]+"', console.get(show).text)) == 1
        assert "1 event " in text_of(console.get(change))


def test_an_empty_type_selects_the_empty_type(console: ConsoleClient, recorded: Outbox) -> None:
    recorded.insert([Row(""), Row("t")])
    assert [one["event_type"] for one in console.get(f"{API}/events", params={"event_type": ""}).json()["items"]] == [
        ""
    ]


def test_operators_find_events_by_header_and_payload(recorded: Outbox, tmp_path: Path) -> None:
    [event_id] = recorded.insert([Row("t", "grüße 7".encode(), headers='{"tenant": "a=b"}')])
    recorded.insert([Row("t")])
    console = client_of(recorded.url_of("console"), CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    for query in ({"header": "tenant=a=b"}, {"payload": "üße"}):
        answer = console.get(f"{API}/events", params=query, headers=bearer("operator-token")).json()
        assert [item["event_id"] for item in answer["items"]] == [str(event_id)]
        refused = console.get(f"{API}/events", params=query, headers=bearer("reader-token"))
        assert problem(refused) == (403, "forbidden")
    wrong = console.get(f"{API}/events", params={"header": "tenant"}, headers=bearer("operator-token"))
    assert problem(wrong) == (422, "invalid-request")


def test_overview_and_causes_have_the_same_findings_those_behind_the_broker_included(
    console: ConsoleClient, recorded: Outbox
) -> None:
    create(recorded.owner_url, TableName(DEFAULT_INBOX), ["dead-letters"])
    with recorded.database.connect() as connection:
        give_rights(connection)
    message = Message("1", "orders", None, b"{}", {})
    inbox.set_aside(recorded.database.connect, message, ValueError("no"), consumer="billing")
    findings = console.get(f"{API}/overview").json()["findings"]
    assert [one["subject"] for one in findings] == ["relays", "inbox"]
    assert findings == console.get(f"{API}/causes").json()["findings"]
    page = console.get("/").text
    assert "Consumer billing has 1 dead letter" in page
    [form] = re.findall(r'<form method="post" action="/set-aside/retry">.*?</form>', page, re.DOTALL)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    assert console.post("/set-aside/retry", data=fields).status_code == 303
    assert recorded.database.run("SELECT state FROM openoutbox_inbox_tries") == [("retry",)]
    [change] = console.get(f"{API}/changes").json()["items"]
    assert (change["action"], change["selection"], change["events"]) == ("retry", {"consumer": "billing"}, 1)
    assert "Consumer billing" not in console.get("/").text
