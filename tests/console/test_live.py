"""Polling: what a browser or a program has already is answered with 304, and what has changed is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from relay.console.pages import live
from tests.console.access.making import token, tokens_file
from tests.console.conftest import ConsoleClient, client_of
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox, Row

HTMX = {"HX-Request": "true"}
PARTS = ["/", "/types", "/fleet"]


def tag_of(console: ConsoleClient, path: str, **headers: str) -> str:
    """The tag of the part, as the whole page has it."""
    [tag] = re.findall(r'data-etag="([^"]+)"', console.get(path, headers=headers).text.replace("&#34;", "'"))
    return str(tag).replace("'", '"')


def polled(console: ConsoleClient, path: str, tag: str, **headers: str) -> tuple[int, str]:
    """The status of a poll, and the tag of its answer."""
    answer = console.get(path, headers={**HTMX, **headers, "If-None-Match": tag})
    assert bool(answer.content) is (answer.status_code == 200)
    return answer.status_code, answer.headers["etag"]


def read_again(console: ConsoleClient) -> None:
    console.app.state.console.readings.forget()


@pytest.mark.parametrize("path", PARTS)
def test_a_part_is_answered_once_until_it_shows_something_else(
    recorded: Outbox, console: ConsoleClient, path: str
) -> None:
    fill_aged(recorded, "DELIVERED", 3)
    first = tag_of(console, path)
    for _ in range(2):
        read_again(console)
        assert polled(console, path, first) == (304, first)
    assert polled(console, path, f'W/{first}, "other"') == (304, first)
    fill_aged(recorded, "DEAD", 1)
    recorded.database.run(
        "INSERT INTO openoutbox_pauses (scope, name, paused_by) VALUES ('type', 'paused-type', 'ada')"
    )
    read_again(console)
    status, second = polled(console, path, first)
    assert (status, second != first) == (200, True)
    assert polled(console, path, second) == (304, second)


def test_viewers_of_one_reading_cost_one_rendering(
    recorded: Outbox, console: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = tag_of(console, "/types")
    monkeypatch.setattr(live, "rendered", lambda *_, **__: pytest.fail("rendered again"))
    monkeypatch.setattr(console.app.state.console.readings.types, "_fresh", 3600.0)
    assert [polled(console, "/types", tag)[0] for _ in range(3)] == [304, 304, 304]


def test_a_part_for_one_role_is_none_for_another(recorded: Outbox, tmp_path: Path) -> None:
    console = client_of(recorded.url_of("console"), CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    fill_aged(recorded, "DEAD", 1)
    roles: list[dict[str, Any]] = [
        {"Authorization": f"Bearer {token(name)}"} for name in ("reader-token", "operator-token")
    ]
    reader, operator = (tag_of(console, "/types", **role) for role in roles)
    assert reader != operator
    assert polled(console, "/types", reader, **roles[1])[0] == 200


def test_a_poll_that_fails_is_told_why(recorded: Outbox, console: ConsoleClient) -> None:
    recorded.database.run("ALTER TABLE openoutbox_events RENAME TO elsewhere")
    answer = console.get("/types", headers=HTMX)
    assert answer.status_code >= 500
    assert "there is no table openoutbox_events" in answer.json()["detail"]
    assert "etag" not in answer.headers


def test_the_api_answers_304_to_a_client_that_has_it(recorded: Outbox, console: ConsoleClient) -> None:
    fill_aged(recorded, "DEAD", 2)
    path = "/api/v1/events?status=DEAD"
    tag = console.get(path).headers["etag"]
    unchanged = console.get(path, headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    assert unchanged.headers["cache-control"] == "no-store"
    fill_aged(recorded, "DEAD", 1)
    changed = console.get(path, headers={"If-None-Match": tag})
    assert (changed.status_code, len(changed.json()["items"])) == (200, 3)
    [event, *_] = changed.json()["items"]
    one = f"/api/v1/events/{event['event_id']}"
    own = console.get(one).headers["etag"]
    assert console.get(one, headers={"If-None-Match": own}).status_code == 304


def test_an_event_for_one_role_is_none_for_another(recorded: Outbox, tmp_path: Path) -> None:
    console = client_of(recorded.url_of("console"), CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    [id_] = recorded.insert([Row("t", b"the payload")])
    path = f"/api/v1/events/{id_}"
    reader, operator = ({"Authorization": f"Bearer {token(f'{role}-token')}"} for role in ("reader", "operator"))
    first = console.get(path, headers=reader)
    assert first.json()["payload"] is None
    seen = {"If-None-Match": first.headers["etag"]}
    assert console.get(path, headers=reader | seen).status_code == 304
    raised = console.get(path, headers=operator | seen)
    assert (raised.status_code, raised.json().get("payload")) == (200, "the payload")
    lowered = console.get(path, headers=reader | {"If-None-Match": raised.headers["etag"]})
    assert (lowered.status_code, lowered.json().get("payload")) == (200, None)
    bury = {"If-Match": first.headers["etag"], "Idempotency-Key": "bury"}
    assert console.post(f"{path}/bury", json={}, headers=operator | bury).status_code == 200
