"""Examples of the event store."""

from __future__ import annotations

from typing import Final

from deploy.reference.examples.model import TIME, Example, change, problem

_FIRST_TENANT: Final = "0b9f5a1e-64f3-4d6c-a1f7-6c5f1b1d9e55"
_TENANT: Final = "847ed188-9e8b-4d23-8eb4-9126ebd77a4d"
_STREAM: Final = "a88f94db-6e7a-439e-9861-485f63cc8a13"
_SECOND_STREAM: Final = "a88f94db-6e7a-439e-9861-485f63cc8a14"

STORE: Final = (
    Example(
        "GET /store",
        "its settings and positions",
        answer={"schema_name": "public", "positions": "gapless", "notify": True, "newest": 9, "horizon": 9},
    ),
    Example(
        "GET /store/tenants",
        "the first tenant",
        parameters={"limit": 1},
        answer={"items": [{"tenant_id": _FIRST_TENANT}], "next": _FIRST_TENANT},
    ),
    Example(
        "GET /store/tenants",
        "the one after it",
        parameters={"limit": 1, "cursor": _FIRST_TENANT},
        answer={"items": [{"tenant_id": _TENANT}], "next": None},
    ),
    Example(
        "GET /store/tenants/{tenant_id}/streams",
        "the first stream",
        parameters={"tenant_id": _TENANT, "limit": 1},
        answer={
            "items": [
                {"stream_id": _STREAM, "version": 3, "sequence_num": 3, "type": "MoneyWithdrawn", "log_date": TIME}
            ],
            "next": _STREAM,
        },
    ),
    Example(
        "GET /store/tenants/{tenant_id}/streams/{stream_id}/events",
        "the newest event",
        parameters={"tenant_id": _TENANT, "stream_id": _STREAM, "limit": 1},
        answer={
            "items": [
                {
                    "version": 3,
                    "sequence_num": 3,
                    "type": "MoneyWithdrawn",
                    "log_date": TIME,
                    "data_bytes": 15,
                    "meta": {},
                    "data": {"cents": 2500},
                }
            ],
            "next": 3,
        },
    ),
    Example(
        "GET /store/subscriptions",
        "one without a holder",
        answer={
            "items": [
                {
                    "name": "balances",
                    "position": 2,
                    "active": False,
                    "updated_at": TIME,
                    "holder": None,
                    "lag_events": 7,
                    "lag_seconds": 3.5,
                    "part": None,
                    "slots": None,
                    "parked": 2,
                }
            ]
        },
    ),
    Example(
        "GET /store/parked",
        "the first that one subscription has set aside",
        parameters={"subscription": "balances", "limit": 1},
        answer={
            "items": [
                {
                    "subscription": "balances",
                    "tenant_id": _TENANT,
                    "stream_id": _STREAM,
                    "position": 2,
                    "version": 2,
                    "tries": 5,
                    "error": "ValueError: no such account",
                    "retrying": False,
                    "parked_at": TIME,
                }
            ],
            "complete": False,
        },
    ),
    Example(
        "POST /store/parked/retry",
        "apply the events of one stream again",
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c21"},
        body={
            "subscription": "balances",
            "tenant_id": _TENANT,
            "stream_id": _STREAM,
            "reason": "the handler is corrected",
        },
        answer=change(
            "retry",
            {"stream_id": _STREAM, "subscription": "balances", "tenant_id": _TENANT},
            "the handler is corrected",
        ),
    ),
    Example(
        "POST /store/parked/skip",
        "give up an event whose stream is retried now",
        status=409,
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c22"},
        body={"subscription": "balances", "tenant_id": _TENANT, "stream_id": _STREAM, "reason": "it was a test"},
        answer=problem(
            409,
            "stream-not-parked",
            f"subscription 'balances' has not parked stream {_STREAM} of tenant {_TENANT}, or retries it now",
        ),
    ),
    Example(
        "POST /store/parked/skip",
        "give up the event at which a stream is parked",
        parameters={"idempotency-key": "5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c23"},
        body={"subscription": "balances", "tenant_id": _TENANT, "stream_id": _SECOND_STREAM, "reason": "it was a test"},
        answer=change(
            "skip",
            {"stream_id": _SECOND_STREAM, "subscription": "balances", "tenant_id": _TENANT},
            "it was a test",
        ),
    ),
)
