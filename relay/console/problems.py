"""Errors as the console answers them: RFC 9457 problems for the API, a page for people.

One table says which error has which status. ``type`` is a URN; ``detail`` is the error's own message, which says what
to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from relay.core.errors import (
    ConfigError,
    OutboxError,
    PublisherError,
    SchemaError,
    StorageBusy,
    StorageUnavailable,
)
from relay.core.outside import shown
from relay.deliverylog.errors import DeliveryLogError, InvalidCursor, ResourceLimit, VersionMismatch
from relay.eventstore.errors import UnknownTenant
from relay.outbox.admin.actions import ActionRefused, EventMissing, EventMoved
from relay.outbox.admin.changes import KeyReused, RecordMissing
from relay.outbox.admin.replay import ReplayRefused
from relay.outbox.admin.search import CursorRefused

MEDIA_TYPE: Final = "application/problem+json"
PREFIX: Final = "urn:openoutbox:problem:"


class RequestProblem(OutboxError):
    """A request that the console itself refuses."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers: Mapping[str, str] = headers or {}


def invalid_request(message: str) -> RequestProblem:
    """A parameter, a field or a body that is not one: 422."""
    return RequestProblem(422, "invalid-request", message)


class Problem(NamedTuple):
    """What went wrong, as RFC 9457 names its parts."""

    status: int
    kind: str
    detail: str
    errors: tuple[Mapping[str, str], ...] = ()

    @property
    def title(self) -> str:
        """The kind in words."""
        return self.kind.replace("-", " ").capitalize()

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """As the API answers it."""
        body: dict[str, object] = {
            "type": f"{PREFIX}{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [dict(error) for error in self.errors]
        return JSONResponse(body, self.status, dict(headers or {}), MEDIA_TYPE)


_TABLE: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (EventMissing, 404, "event-missing"),
    (EventMoved, 412, "event-moved"),
    (ActionRefused, 409, "action-refused"),
    (ReplayRefused, 409, "replay-refused"),
    (KeyReused, 422, "idempotency-key-reused"),
    (CursorRefused, 400, "invalid-cursor"),
    (RecordMissing, 503, "record-missing"),
    (StorageBusy, 503, "database-busy"),
    (StorageUnavailable, 503, "database-unavailable"),
    (SchemaError, 503, "table-unusable"),
    (PublisherError, 503, "broker-unreachable"),
    (ResourceLimit, 400, "answer-too-large"),
    (InvalidCursor, 400, "invalid-cursor"),
    (VersionMismatch, 400, "invalid-cursor"),
    (UnknownTenant, 404, "tenant-missing"),
    (ConfigError, 503, "setting-wrong"),
)
"""In this order: the first class that fits."""


def problem_of(error: Exception) -> Problem:
    """The problem that an error is, secrets masked: a page or an answer shows it."""
    problem = _problem_of(error)
    return problem._replace(detail=shown(problem.detail))


def _problem_of(error: Exception) -> Problem:
    match error:
        case RequestProblem():
            return Problem(error.status, error.kind, str(error))
        case RequestValidationError():
            errors = tuple(
                {"where": ".".join(map(str, detail["loc"])), "message": str(detail["msg"])} for detail in error.errors()
            )
            text = "; ".join(f"{each['where']}: {each['message']}" for each in errors)
            return Problem(422, "invalid-request", text, errors)
        case HTTPException():
            kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-").replace("'", "")
            return Problem(error.status_code, kind, str(error.detail))
    for kind_of_error, status, kind in _TABLE:
        if isinstance(error, kind_of_error):
            return Problem(status, kind, _message(error))
    if isinstance(error, DeliveryLogError):
        invalid = isinstance(error, ValueError)
        return Problem(400 if invalid else 503, "invalid-query" if invalid else "log-unavailable", str(error))
    return Problem(500, "failed", "the console failed; its log says why")


def _message(error: Exception) -> str:
    """The message; for a statement that took too long, what makes it shorter."""
    if isinstance(error, StorageBusy) and error.sqlstate == "57014":
        return f"{error}; it examined too many rows: choose a status, a type or a shorter time"
    return str(error)
