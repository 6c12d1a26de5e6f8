"""What an example is: one request and its answer, and the ids and times that the examples share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from relay.console.problems import PREFIX, Problem

EVENT_IDS: Final = tuple(f"0190b0a0-0000-7000-8000-00000000000{number}" for number in range(1, 7))
CHANGE_ID: Final = "0190b0a0-0000-7000-8000-0000000000aa"
TIME: Final = "2026-03-10T12:00:00.000000Z"
_HEADERS: Final = ("idempotency-key", "if-match")


@dataclass(frozen=True, slots=True)
class Example:
    """One request of an operation, and the answer to it."""

    operation: str
    """Method and path below ``/api/v1``, as ``GET /events/{event_id}``."""
    name: str
    """Unique within the operation: what the request does."""
    answer: Any
    status: int = 200
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """By name: those of the path, of the query, and headers in lower case."""
    body: Any = None
    shown: bool = False
    """Whether docs/reference/http.md shows it: one example a family of operations."""

    def request(self) -> tuple[str, str, dict[str, Any], dict[str, str]]:
        """Method, path below ``/api/v1``, query and headers."""
        method, _, path = self.operation.partition(" ")
        headers = {name: self.parameters[name] for name in _HEADERS if name in self.parameters}
        inside = {name for name in self.parameters if f"{{{name}}}" in path}
        query = {name: value for name, value in self.parameters.items() if name not in inside | headers.keys()}
        return method, path.format(**{name: self.parameters[name] for name in inside}), query, headers


def problem(status: int, kind: str, detail: str) -> dict[str, Any]:
    """The answer to a request that is refused."""
    return {"type": f"{PREFIX}{kind}", "title": Problem(status, kind, detail).title, "status": status, "detail": detail}


def change(action: str, selection: Mapping[str, Any], reason: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - the fields of ChangeItem
    """A recorded change; complete, of one event, unless ``fields`` say otherwise."""
    return {
        "change_id": CHANGE_ID,
        "action": action,
        "selection": dict(selection),
        "changed_by": "ada",
        "reason": reason,
        "state": "complete",
        "events": 1,
        "expected": None,
        "error": None,
        "may_have_been_sent": None,
        "started_at": TIME,
        "updated_at": TIME,
        **fields,
    }
