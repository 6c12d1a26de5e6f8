"""Examples of the delivery log."""

from __future__ import annotations

from typing import Any, Final

from deploy.reference.examples.model import EVENT_IDS, Example

_EVENT: Final[dict[str, Any]] = {
    "id": EVENT_IDS[4],
    "tenant_id": "acme",
    "destination_id": "",
    "matched_destination_ids": ["kafka"],
    "time": "2026-03-10T11:59:59.000Z",
    "topic": "user.signup",
    "eligible_for_retry": True,
    "metadata": {"source": "shop"},
}
_ATTEMPT_ID: Final = "0190b0a0-1111-7000-8000-000000000002"
_ATTEMPT: Final[dict[str, Any]] = {
    "id": _ATTEMPT_ID,
    "event_id": EVENT_IDS[4],
    "tenant_id": "acme",
    "destination_id": "kafka",
    "destination_type": "kafka",
    "topic": "user.signup",
    "status": "success",
    "time": "2026-03-10T12:00:02.000Z",
    "attempt_number": 2,
    "manual": False,
    "code": None,
    "response_data": {"partition": 3, "offset": 1042},
    "event": _EVENT,
}


def _metrics(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"rows": list(rows), "query_time_ms": 2, "row_count": len(rows), "row_limit": 100_000, "truncated": False}


LOG: Final = (
    Example(
        "GET /log/events",
        "of a topic since a time",
        parameters={"topic": ["user.signup"], "time_gte": "2026-03-10T00:00:00Z"},
        answer={"items": [_EVENT], "next": None, "prev": None},
    ),
    Example(
        "GET /log/events/{event_id}",
        "with its payload",
        parameters={"event_id": EVENT_IDS[4], "include": ["data"]},
        answer={**_EVENT, "data_base64": "eyJ1c2VyIjogMX0="},
    ),
    Example(
        "GET /log/attempts",
        "the newest attempt of a tenant",
        parameters={"tenant_id": ["acme"], "limit": 1},
        answer={
            "items": [_ATTEMPT],
            "next": "hyd6ZRZbPdrcFufP2cSJvab7T2lyOPIc7Bfhsp8YbOqvRnc3LloPGvynoVaW9xzha9sQSvOEWlBLay",
            "prev": None,
        },
    ),
    Example(
        "GET /log/attempts",
        "the page after it",
        parameters={
            "tenant_id": ["acme"],
            "limit": 1,
            "next": "hyd6ZRZbPdrcFufP2cSJvab7T2lyOPIc7Bfhsp8YbOqvRnc3LloPGvynoVaW9xzha9sQSvOEWlBLay",
        },
        answer={
            "items": [
                {
                    **_ATTEMPT,
                    "id": "0190b0a0-1111-7000-8000-000000000001",
                    "status": "failed",
                    "time": "2026-03-10T12:00:01.000Z",
                    "attempt_number": 1,
                    "code": "_TRANSPORT",
                    "response_data": {"reason": "broker down"},
                }
            ],
            "next": None,
            "prev": "hyd6ZRZbPdrcFufP2cSJvab7T2lyOPIc7Bfhsp8YbOqvRnc3LloPGvynoVaW9xzha9sQSvOEWlBLaw",
        },
    ),
    Example(
        "GET /log/attempts/{attempt_id}",
        "of a tenant",
        parameters={"attempt_id": _ATTEMPT_ID, "tenant_id": "acme"},
        answer=_ATTEMPT,
    ),
    Example(
        "GET /log/metrics/events",
        "events of a day by topic",
        parameters={
            "start": "2026-03-10T00:00:00Z",
            "end": "2026-03-11T00:00:00Z",
            "measure": ["count"],
            "dimension": ["topic"],
        },
        answer=_metrics({"topic": "user.signup", "count": 1}),
    ),
    Example(
        "GET /log/metrics/attempts",
        "failures of a tenant in half hours",
        parameters={
            "start": "2026-03-10T12:00:00Z",
            "end": "2026-03-10T13:00:00Z",
            "measure": ["failed_count", "error_rate"],
            "filter": ["tenant_id=acme"],
            "granularity": "30m",
        },
        answer=_metrics(
            {"time": "2026-03-10T12:00:00.000Z", "failed_count": 1, "error_rate": 0.5},
            {"time": "2026-03-10T12:30:00.000Z", "failed_count": 0, "error_rate": 0.0},
        ),
    ),
)
