"""The quarantine: entries that could not be stored, as text with the reason, and reading them to write them again.

The text is ASCII JSON, so that every database stores it whatever the entry contains. Times are in ISO 8601, and bytes
are ``{"base64": "…"}``. Entries of earlier releases hold Python's representation of both, which is read as well.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from relay.deliverylog.entries import check_depth
from relay.deliverylog.records import LogEntry, LoggedAttempt, LoggedEvent

_EARLIER_TIME = re.compile(r"datetime\.datetime\((\d+(?:, \d+){2,6}), tzinfo=datetime\.timezone\.utc\)")
_MOST_OF_A_REPRESENTATION = 10_000  # characters of an entry that JSON cannot express


@dataclass(frozen=True, slots=True)
class QuarantinedEntry:
    """One entry of the quarantine."""

    id: str
    """The MD5 of the text, in hexadecimal: equal entries are quarantined once."""
    time: datetime
    reason: str
    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """The event and the attempt as JSON objects; empty for an entry that JSON could not express."""
        try:
            fields = json.loads(self.text)
        except (ValueError, RecursionError):
            return {}
        both = isinstance(fields, dict) and all(isinstance(fields.get(kind), dict) for kind in ("event", "attempt"))
        return fields if both else {}

    def entry(self) -> LogEntry:
        """The entry that was quarantined. Raises ValueError when the text does not hold all of it."""
        fields = self.fields
        if not fields:
            raise ValueError("the quarantined text is not an entry")
        try:
            event, attempt = dict(fields["event"]), dict(fields["attempt"])
            event.update(time=_time(event["time"]), data=_bytes(event["data"]))
            attempt.update(time=_time(attempt["time"]))
            return LogEntry(LoggedEvent(**event), LoggedAttempt(**attempt))
        except (KeyError, TypeError, SyntaxError) as error:
            raise ValueError(f"the quarantined text is not an entry: {error}") from error


class QuarantineRetry(NamedTuple):
    """The result of writing quarantined entries again."""

    written: int
    """Entries that are in the log now, and no longer in the quarantine."""
    remaining: int
    """Entries that could not be stored this time either, and are still in the quarantine."""


def as_text(entry: LogEntry) -> str:
    """An entry as ASCII JSON, whatever it holds."""
    event, attempt = entry.event, entry.attempt
    fields = {
        "event": {name: getattr(event, name) for name in LoggedEvent.__slots__},
        "attempt": {name: getattr(attempt, name) for name in LoggedAttempt.__slots__},
    }
    try:
        check_depth(attempt.response_data)
    except ValueError as error:  # no representation either: it would recurse as deep
        fields["attempt"]["response_data"] = {"omitted": str(error)}
    try:
        return json.dumps(fields, default=_json_form)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(_representation(entry))


def _representation(entry: LogEntry) -> str:
    try:
        return repr(entry)[:_MOST_OF_A_REPRESENTATION]
    except Exception as error:  # noqa: BLE001 - of whatever object a caller put into the entry
        return f"attempt {entry.attempt.id!s:.800} has no representation: {type(error).__name__}"


def id_of(text: str) -> str:
    """The id of a quarantined text; the databases compute the same."""
    return hashlib.md5(text.encode("ascii"), usedforsecurity=False).hexdigest()


def _json_form(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return {"base64": base64.b64encode(value).decode("ascii")}
        case Mapping():
            return dict(value)
        case _:
            return repr(value)


def _time(text: str) -> datetime:
    match = _EARLIER_TIME.fullmatch(text)
    if match is None:
        return datetime.fromisoformat(text)
    year, month, day, *clock = map(int, match[1].split(", "))
    hour, minute, second, microsecond = (*clock, 0, 0, 0, 0)[:4]
    return datetime(year, month, day, hour, minute, second, microsecond, tzinfo=UTC)


def _bytes(value: object) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    data = ast.literal_eval(str(value))
    if not isinstance(data, bytes):
        raise TypeError("data is not bytes")
    return data
