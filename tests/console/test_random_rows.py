"""Every page renders whatever a row holds, and shows JSON that is the same as what is stored."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.console.conftest import ConsoleClient
from tests.support.fixtures.outbox import Outbox

_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=60)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_EXACT = b'{"a":1,"a":0.1000000000000000055511151231257827}'
_ODD = st.sampled_from([b'{"a":"\\ud800"}', b"1e400", _EXACT, b"[" * 9000, b"\xff\x00", b"NaN"])
_PAYLOADS = _JSON.map(lambda value: json.dumps(value).encode()) | _ODD | st.binary(max_size=80)
_INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, status, last_error, attempts)
VALUES (gen_random_uuid(), %s, %s, %s, %s::jsonb, %s, %s, 3) RETURNING event_id
"""
_PAGES = ("/", "/events", "/events?status=DEAD", "/dead", "/types", "/fleet", "/changes")


def exactly(text: str | bytes) -> Any:
    """A document, with every name that stands twice and every number as it is written."""
    return json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=lambda pairs: ["object", *pairs])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    event_type=_TEXT,
    key=st.none() | _TEXT,
    payload=_PAYLOADS,
    headers=st.dictionaries(_TEXT, _JSON, max_size=4) | _JSON,
    status=st.sampled_from(["PENDING", "DEAD"]),
    error=st.none() | _TEXT | _TEXT.map(lambda text: f"HTTP_503: {text} \x1b[31m{text * 20}"),
)
def test_every_page_renders_whatever_a_row_holds(
    recorded: Outbox,
    console: ConsoleClient,
    event_type: str,
    key: str | None,
    payload: bytes,
    headers: Any,
    status: str,
    error: str | None,
) -> None:
    row = [event_type, key, payload, json.dumps(headers), status, error]
    [(id_,)] = recorded.database.run(_INSERT, row)
    event = f"/events/{id_}"
    statuses = {path: console.get(path).status_code for path in (*_PAGES, event, f"/api/v1{event}", "/api/v1/causes")}
    assert set(statuses.values()) == {200}, statuses
    page = console.get(event).text
    [(kind, rest)] = re.findall(r'id="payload">Payload</h2><p class="remark">(\w+)(.*?)</section>', page, re.DOTALL)
    if kind == "JSON":
        [shown] = re.findall(r"<pre[^>]*>(.*?)</pre>", rest, re.DOTALL)
        assert exactly(unescape(shown)) == exactly(payload)
    recorded.database.run("DELETE FROM openoutbox_events")
