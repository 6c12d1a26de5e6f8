"""What a page says of itself: only what the console itself said, what it withholds, and why it answers nothing."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from tests.console.access.making import token, tokens_file
from tests.console.conftest import ConsoleClient, client_of
from tests.console.test_pages import send, text_of
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox, Row, give_rights

PAGES = ("/", "/events", "/dead", "/types", "/fleet", "/settings", "/changes", "/logins", "/prune", "/log", "/store")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_refuses_a_parameter_that_it_does_not_know(console: ConsoleClient, recorded: Outbox, path: str) -> None:
    del recorded
    answer = console.get(path, params={"event_typ": "order.placed"})
    assert answer.status_code == 422
    assert "Unknown parameter 'event_typ'; choose from" in text_of(answer)


def test_every_parameter_of_a_search_is_known(console: ConsoleClient, recorded: Outbox) -> None:
    del recorded
    filters = {"status": "DEAD", "event_type": "t", "partition_key": "k", "error": "e", "error_code": "E"}
    others = dict.fromkeys(("event_id", "cause", "since", "until", "cursor"), "")
    assert console.get("/events", params={**filters, **others}).status_code == 200


def test_what_was_done_is_said_in_the_consoles_own_words_alone(console: ConsoleClient, recorded: Outbox) -> None:
    [id_] = recorded.insert([Row("t", b"{}")])
    assert "The event was changed: bury." in text_of(console.get(f"/events/{id_}?done=bury"))
    forged = console.get(f"/events/{id_}", params={"done": "your password has expired, call 555"})
    assert (forged.status_code, "The event was changed" in forged.text) == (422, False)


def test_what_turns_text_around_is_escaped_but_in_forms_that_send_it_back(
    console: ConsoleClient, recorded: Outbox
) -> None:
    name = "a\u202etxt"
    [id_] = recorded.insert([Row(name, '{"k": "\u202e\x7f"}'.encode(), "key\x1b[31m")])
    send(console, "/pauses", scope="type", name=name, reason="turn \u202e around")
    page = console.get(f"/events/{id_}").text
    assert "a\\u202etxt" in page
    assert "key\\x1b[31m" in page
    assert '{\n  "k": "\\u202e\\u007f"\n}' in unescape(page)
    for each in (page, console.get("/").text, console.get("/types").text, console.get("/fleet").text):
        fields = re.findall(r'name="name" value="([^"]*)"', each)
        assert fields == [name]
        assert re.search("[\u202e\x1b]", each.replace(f'value="{name}"', "")) is None
    assert send(console, "/pauses/resume", scope="type", name=fields[0]).status_code == 303
    assert "Resume" not in console.get("/").text


def test_the_record_of_changes_is_shown_to_a_database_user_that_only_reads(
    console: ConsoleClient, recorded: Outbox
) -> None:
    [id_] = recorded.insert([Row("t", b"{}")])
    with recorded.database.connect() as connection:
        give_rights(connection)
    reading = client_of(recorded.url_of("reader"))
    assert "Nothing was changed yet" in text_of(reading.get("/changes"))
    send(console, "/pauses", scope="type", name="t", reason="as agreed")
    assert "as agreed" in text_of(reading.get("/changes"))
    refused = send(reading, f"/events/{id_}/bury", version='"1.admin"')
    assert refused.status_code == 503
    assert "may not record changes; run as the owner: GRANT" in text_of(refused)


def test_a_page_says_what_it_withholds_from_a_role(recorded: Outbox, tmp_path: Path) -> None:
    [id_] = recorded.insert([Row("t", b"{}")])
    console = client_of(recorded.url_of("console"), CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    said = {
        role: [
            "Not shown to the role" in text_of(console.get(path, headers={"Authorization": f"Bearer {token(role)}"}))
            for path in ("/events", f"/events/{id_}", "/dead", "/types", "/fleet", "/settings")
        ]
        for role in ("reader-token", "operator-token", "admin-token")
    }
    assert said == {
        "reader-token": [True, True, True, True, True, False],
        "operator-token": [True, False, False, False, False, False],
        "admin-token": [False] * 6,
    }


def test_overview_lists_open_causes_with_a_button_for_the_whole_of_each(
    console: ConsoleClient, recorded: Outbox
) -> None:
    fill_aged(recorded, "DEAD", 12)
    recorded.database.run(
        "UPDATE openoutbox_events SET event_type = partition_key, last_error = 'HTTP_503: partner 7 of 9'"
    )
    recorded.insert([Row("other", b"{}")])
    recorded.database.run(
        "UPDATE openoutbox_events SET attempts = 3, last_error = 'TIMEOUT: no answer', "
        "available_at = now() + interval '1 hour' WHERE event_type = 'other'"
    )
    page = console.get("/")
    words = text_of(page)
    assert re.search(
        r"HTTP_503: partner # of # 12 dead since \S+ \S+ , the last \S+ \S+ ; .* and \d+ more types", words
    )
    assert "TIMEOUT: no answer 1 tried again since" in words
    [(label, path)] = re.findall(r'class="spark"[^>]* aria-label="([^"]+)"><path d="([^"]+)"', page.text)
    assert label == "Failed last by minute, in the last hour: 1"
    assert re.fullmatch(r"M5[789].5 12V0.0", path)
    whole, replay, retry = re.findall(r'href="(/changes/new\?[^"]+)"', page.text)
    assert ["12 events" in text_of(console.get(unescape(each))) for each in (whole, replay)] == [True] * 2
    assert "1 event " in text_of(console.get(unescape(retry)))
