"""Examples of what changes events and pauses."""

from __future__ import annotations

from typing import Final

from deploy.reference.examples.model import EVENT_IDS, TIME, Example, change, problem

_ACTION: Final = "POST /events/{event_id}/{action}"
_SELECTION: Final = {"event_type": "order.paid", "error_code": "MSG_SIZE_TOO_LARGE"}
_UNTIL: Final = "2036-03-10T18:00:00Z"

CHANGING: Final = (
    Example(
        _ACTION,
        "check whether a dead event can be replayed",
        parameters={"event_id": EVENT_IDS[0], "action": "replay"},
        body={"dry_run": True},
        answer={"dry_run": True, "events": 1, "exact": True},
    ),
    Example(
        _ACTION,
        "retry a waiting event now",
        parameters={
            "event_id": EVENT_IDS[1],
            "action": "retry",
            "idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c11",
        },
        body={"reason": "the broker is back"},
        answer=change("retry", {"event_id": EVENT_IDS[1]}, "the broker is back"),
    ),
    Example(
        _ACTION,
        "cancel a scheduled event that was changed meanwhile",
        status=412,
        parameters={
            "event_id": EVENT_IDS[2],
            "action": "cancel",
            "idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c12",
            "if-match": '"1773144000000000.operator"',
        },
        body={"reason": "the order was withdrawn"},
        answer=problem(412, "event-moved", f"event {EVENT_IDS[2]} was changed after you saw it; look at it again"),
    ),
    Example(
        "POST /changes",
        "count what a replay would take",
        body={"action": "replay", "selection": _SELECTION, "dry_run": True},
        answer={"dry_run": True, "events": 1, "exact": True, "at": TIME},
    ),
    Example(
        "POST /changes",
        "replay dead events at a rate",
        shown=True,
        status=202,
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c13"},
        body={
            "action": "replay",
            "selection": _SELECTION,
            "limit": 1000,
            "rate": 100,
            "reason": "the limit was raised",
        },
        answer=change(
            "replay",
            {**_SELECTION, "limit": 1000, "rate": 100.0, "status": ["dead"]},
            "the limit was raised",
            state="running",
            events=0,
            expected=1,
        ),
    ),
    Example(
        "POST /prune",
        "delete what is older than a week and a month",
        status=202,
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c16"},
        body={"delivered_days": 7, "dead_days": 30, "reason": "the disk is nearly full"},
        answer=change(
            "prune",
            {"delivered_days": 7.0, "dead_days": 30.0},
            "the disk is nearly full",
            state="running",
            events=0,
            expected=81212,
        ),
    ),
    Example(
        "POST /prune",
        "count what would be deleted",
        body={"delivered_days": 7, "dead_days": 0, "dry_run": True},
        answer={"delivered": 81200, "dead": 0, "exact": True, "at": TIME},
    ),
    Example(
        "POST /pauses",
        "hold a type back until a time",
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c14"},
        body={"scope": "type", "name": "user.signup", "until": _UNTIL, "reason": "the consumer is repaired"},
        answer=change(
            "pause",
            {"name": "user.signup", "scope": "type", "until": _UNTIL.replace("Z", ".000000Z")},
            "the consumer is repaired",
        ),
    ),
    Example(
        "POST /pauses/resume",
        "end that pause",
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c15"},
        body={"scope": "type", "name": "user.signup", "reason": "the consumer works"},
        answer=change("resume", {"name": "user.signup", "scope": "type"}, "the consumer works"),
    ),
    Example(
        "POST /pauses",
        "pause the whole outbox until an operator resumes it",
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c17"},
        body={"scope": "all", "reason": "the broker is repaired"},
        answer=change("pause", {"name": "", "scope": "all", "until": None}, "the broker is repaired"),
    ),
    Example(
        "POST /pauses/resume-all",
        "end every pause",
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c18"},
        body={"reason": "the broker is back"},
        answer=change("resume", {"pauses": "every"}, "the broker is back"),
    ),
)
