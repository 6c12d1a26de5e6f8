"""Examples of what is read of the outbox: events, figures, relays, pauses and changes."""

from __future__ import annotations

from typing import Any, Final

from deploy.reference.examples.model import CHANGE_ID, EVENT_IDS, TIME, Example, change, problem

_ERROR: Final = "MSG_SIZE_TOO_LARGE: the message has 1,200,000 bytes"
_REPLAYED: Final = change(
    "replay",
    {"error_code": "MSG_SIZE_TOO_LARGE", "event_type": "report.made", "limit": None, "rate": 100.0, "status": ["dead"]},
    "the limit was raised",
    expected=1,
)
_ABSENT: Final = "0190b0a0-0000-7000-8000-0000000000ff"


def _relay(number: int) -> dict[str, Any]:
    return {
        "relay_id": f"relay-{number}",
        "version": "1.0.0",
        "host": f"host-{number}",
        "started_at": TIME,
        "seen_at": TIME,
        "living": True,
        "state": "active",
        "reason": "",
        "destination_type": "kafka",
        "lease_timeout": 180.0,
        "ordering": "none",
        "on_delivered": "keep",
        "delivered_per_second": 412.5,
        "failed_per_second": 0.0,
        "in_flight": 37,
        "pauses": 0,
    }


def _settings(number: int, batch: str, *, changed: bool) -> dict[str, Any]:
    settings = {
        "BATCH_SIZE": {"value": batch, "changed": changed},
        "PUBLISHER_URL": {"value": "kafka://relay:***@kafka:9092", "changed": True},
    }
    identity = {"relay_id": f"relay-{number}", "host": f"host-{number}", "version": "1.0.0", "living": True}
    return {**identity, "settings": settings}


def _type(name: str, **figures: Any) -> dict[str, Any]:  # noqa: ANN401 - the fields of EventTypeItem
    still = {"last_minute": 0.0, "last_hour": 0.0}
    nothing = {"p50": None, "p99": None, "waiting": 0, "retrying": 0, "oldest_due_age_sec": None, "dead": 0}
    return {"event_type": name, "paused": False, "delivered": still, "died": still, **nothing, **figures}


def _group(event_type: str) -> dict[str, Any]:
    return {"event_type": event_type, "error": "MSG_SIZE_TOO_LARGE", "events": 1, "first": TIME, "last": TIME}


_EVENTS: Final = (
    Example(
        "GET /events",
        "dead events of a type",
        shown=True,
        parameters={"status": ["DEAD"], "event_type": "user.signup", "limit": 1},
        answer={
            "items": [
                {
                    "event_id": EVENT_IDS[0],
                    "event_type": "user.signup",
                    "partition_key": "user-1",
                    "status": "DEAD",
                    "attempts": 1,
                    "since": TIME,
                    "created_at": TIME,
                    "available_at": TIME,
                    "locked_by": None,
                    "payload_bytes": 11,
                    "last_error": _ERROR,
                }
            ],
            "next": None,
            "prev": None,
            "examined_until": None,
        },
    ),
    Example(
        "GET /events/{event_id}",
        "a dead event",
        parameters={"event_id": EVENT_IDS[0]},
        answer={
            "event_id": EVENT_IDS[0],
            "event_type": "user.signup",
            "partition_key": "user-1",
            "status": "DEAD",
            "attempts": 1,
            "last_error": _ERROR,
            "created_at": TIME,
            "available_at": TIME,
            "locked_by": None,
            "locked_at": None,
            "delivered_at": None,
            "updated_at": TIME,
            "headers": {"source": "shop"},
            "payload": '{"user": 1}',
            "payload_encoding": "utf-8",
            "why": {
                "cause": "dead",
                "sentence": f"It has been dead since 2026-03-10T12:00:00Z, after 1 failed attempt: {_ERROR}.",
                "step": f"Remove the cause, then: relay-cli replay --id {EVENT_IDS[0]}",
                "blocker": None,
                "also": [],
            },
        },
    ),
    Example(
        "GET /events/{event_id}",
        "no such event",
        status=404,
        parameters={"event_id": _ABSENT},
        answer=problem(404, "event-missing", f"there is no event {_ABSENT} in table openoutbox_events"),
    ),
)
_FINDINGS: Final = [
    {
        "level": "warning",
        "subject": "pause",
        "message": "Every event type that begins with import. is paused: the warehouse moves.",
        "advice": "Paused by ada at 2026-03-10T12:00:00Z, until it is resumed.",
    },
    {
        "level": "warning",
        "subject": "relays",
        "message": "No relay is connected to this database.",
        "advice": "Start a relay. One behind a pool that hides names of connections is not seen here.",
    },
    {
        "level": "warning",
        "subject": "dead",
        "message": "2 events are dead; all died in the last hour, most of type order.paid.",
        "advice": "Remove the cause, then replay them: relay-cli causes, or Dead letters, has them by cause.",
    },
    {
        "level": "warning",
        "subject": "retrying",
        "message": "1 event waits for the next attempt after a failure.",
        "advice": "The relays repeat them automatically. Their errors say what they wait for.",
    },
    {
        "level": "warning",
        "subject": "inbox",
        "message": "Consumer billing has 1 dead letter, the oldest since 2026-03-10T12:00:00Z.",
        "advice": "relay-cli inbox list billing says why; correct the handler, then: relay-cli inbox retry billing",
    },
    {
        "level": "warning",
        "subject": "subscription",
        "message": "Subscription balances has set aside 2 streams, the first at 2026-03-10T12:00:00Z.",
        "advice": "relay-cli store parked list balances says why; then: relay-cli store parked retry balances",
    },
]
_UNCOUNTED: Final = {"failed": None, "dead": None, "lag": None}
_FIGURES: Final = (
    Example(
        "GET /stats",
        "the backlog",
        answer={
            "pending_count": 1204,
            "retrying_count": 3,
            "oldest_age_sec": 42.7,
            "oldest_due_age_sec": 0.9,
            "dead_count": 2,
            "in_flight_count": 100,
        },
    ),
    Example(
        "GET /causes",
        "what holds up events, and why events fail",
        answer={
            "findings": _FINDINGS,
            "causes": [
                {
                    "cause": "MSG_SIZE_TOO_LARGE:9fdb770ac8",
                    "code": "MSG_SIZE_TOO_LARGE",
                    "error": "the message has # bytes",
                    "message": _ERROR,
                    "dead": 2,
                    "retrying": 0,
                    "types": {"order.paid": 1, "user.signup": 1},
                    "keys": 1,
                    "first": TIME,
                    "last": TIME,
                    "sample": EVENT_IDS[0],
                    "minutes": {"2026-03-10T12:00:00Z": 2},
                    "step": "Remove the cause, then: relay-cli replay --cause MSG_SIZE_TOO_LARGE:9fdb770ac8",
                },
                {
                    "cause": "_TRANSPORT:6a689efdb0",
                    "code": "_TRANSPORT",
                    "error": "no broker",
                    "message": "_TRANSPORT: no broker",
                    "dead": 0,
                    "retrying": 1,
                    "types": {"order.paid": 1},
                    "keys": 1,
                    "first": TIME,
                    "last": TIME,
                    "sample": EVENT_IDS[1],
                    "minutes": {"2026-03-10T12:00:00Z": 1},
                    "step": f"Relays repeat them. relay-cli show {EVENT_IDS[1]}",
                },
            ],
            "complete": True,
            "sample": "",
        },
    ),
    Example(
        "GET /overview",
        "at a glance",
        parameters={"minutes": 1},
        answer={
            "findings": _FINDINGS,
            "stats": {
                "pending_count": 2,
                "retrying_count": 1,
                "oldest_age_sec": 42.7,
                "oldest_due_age_sec": 0.9,
                "dead_count": 2,
                "in_flight_count": 0,
            },
            "complete": True,
            "relays": [],
            "minutes": [
                {"minute": "2026-03-10T11:59:00.000000Z", "events": 0, "exact": True, **_UNCOUNTED},
                {"minute": TIME, "events": 1, "exact": True, **_UNCOUNTED},
            ],
            "types": [
                {"event_type": "order.paid", "delivered": 0, "dead": 1, "failed": 4},
                {"event_type": "user.signup", "delivered": 1, "dead": 1, "failed": 1},
            ],
        },
    ),
    Example(
        "GET /series",
        "the last minute, and the current one",
        parameters={"minutes": 1},
        answer={
            "items": [
                {
                    "start": "2026-03-10T11:59:00.000000Z",
                    "delivered": 3510,
                    "failed": 4,
                    "dead": 1,
                    "lag": 0.9,
                    "counted": 1,
                },
                {"start": TIME, "delivered": 0, "failed": 0, "dead": 0, "lag": 0.0, "counted": 0},
            ],
            "step_minutes": 1,
        },
    ),
    Example(
        "GET /dead-letters",
        "by type and error",
        answer={"items": [_group("order.paid"), _group("user.signup")], "examined": 2, "complete": True},
    ),
    Example(
        "GET /prune-preview",
        "a week and a month",
        parameters={"delivered_days": 7, "dead_days": 30},
        answer={"delivered": 81200, "dead": 12, "exact": True, "at": TIME},
    ),
    Example(
        "GET /types",
        "all types",
        answer={
            "items": [
                _type("order.paid", died={"last_minute": 1.0, "last_hour": 0.02}, waiting=2, retrying=1, dead=1),
                _type("user.signup", delivered={"last_minute": 60.0, "last_hour": 58.5}, p50=0.04, p99=0.31, dead=1),
                _type("report.made", waiting=1, oldest_due_age_sec=0.5),
            ],
            "delivered": {"rows": 3510, "whole": True, "seconds": 3600.0},
            "waiting": {"rows": 3, "whole": True, "seconds": 3600.0},
            "dead": {"rows": 2, "whole": True, "seconds": 3600.0},
        },
    ),
)
_RELAYS: Final = (
    Example("GET /fleet", "two relays", answer={"items": [_relay(2), _relay(1)], "differences": []}),
    Example(
        "GET /pauses",
        "a prefix is paused",
        answer={
            "items": [
                {
                    "scope": "prefix",
                    "name": "import.",
                    "until": None,
                    "paused_by": "ada",
                    "reason": "the warehouse moves",
                    "since": TIME,
                }
            ]
        },
    ),
    Example(
        "GET /settings",
        "two relays that differ",
        answer={
            "items": [_settings(1, "500", changed=True), _settings(2, "100", changed=False)],
            "differences": [
                {
                    "name": "BATCH_SIZE",
                    "values": [{"value": "500", "relays": ["relay-1"]}, {"value": "100", "relays": ["relay-2"]}],
                }
            ],
        },
    ),
)
_CHANGES: Final = (
    Example(
        "GET /changes", "the newest change", parameters={"limit": 1}, answer={"items": [_REPLAYED], "next": "1042"}
    ),
    Example(
        "GET /changes/{change_id}", "a finished replay", parameters={"change_id": CHANGE_ID}, answer=dict(_REPLAYED)
    ),
    Example(
        "POST /changes/{change_id}/stop",
        "of a finished replay",
        parameters={"change_id": CHANGE_ID},
        answer=dict(_REPLAYED),
    ),
)
READING: Final = (*_EVENTS, *_FIGURES, *_RELAYS, *_CHANGES)
