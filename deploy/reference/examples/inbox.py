"""Examples of the dead letters of consumers."""

from __future__ import annotations

from typing import Any, Final

from deploy.reference.examples.model import EVENT_IDS, TIME, Example, change, problem

_LETTER: Final[dict[str, Any]] = {
    "state": "dead",
    "consumer": "billing",
    "event_id": EVENT_IDS[0],
    "event_type": "order.placed",
    "partition_key": "7",
    "tries": 5,
    "since": TIME,
    "error": "ValueError: no such account",
}
_REASON: Final = "the handler is corrected"

INBOX: Final = (
    Example(
        "GET /inbox/dead-letters",
        "those of one consumer",
        parameters={"consumer": "billing"},
        answer={"items": [{**_LETTER, "payload_bytes": 12}], "complete": True},
    ),
    Example(
        "GET /inbox/dead-letters/one",
        "the whole message",
        parameters={"consumer": "billing", "event_id": EVENT_IDS[0]},
        answer={**_LETTER, "headers": {"source": "shop"}, "payload": '{"order": 7}', "payload_encoding": "utf-8"},
    ),
    Example(
        "POST /inbox/dead-letters/retry",
        "try all of a consumer again",
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c31"},
        body={"consumer": "billing", "reason": _REASON},
        answer=change("retry", {"consumer": "billing"}, _REASON),
    ),
    Example(
        "POST /inbox/dead-letters/skip",
        "give one up",
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c32"},
        body={"consumer": "billing", "event_id": EVENT_IDS[0], "reason": "it was a test"},
        answer=change("skip", {"consumer": "billing", "event_id": EVENT_IDS[0]}, "it was a test"),
    ),
    Example(
        "POST /inbox/dead-letters/skip",
        "give up one that is not there",
        status=404,
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c33"},
        body={"consumer": "billing", "event_id": EVENT_IDS[1]},
        answer=problem(404, "letter-missing", f"consumer 'billing' has no dead letter '{EVENT_IDS[1]}'"),
    ),
)
