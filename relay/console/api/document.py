"""The OpenAPI document: what FastAPI makes of the routes, and the problems that each of them may answer."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from relay.console.problems import MEDIA_TYPE, PREFIX
from relay.version import __version__

_ALWAYS: Final = {
    401: "Not logged in.",
    403: "The role may not do this.",
    422: "A parameter or the body is invalid.",
    503: "The database or the broker does not answer, or the statement took too long.",
}
_READING: Final = {400: "The cursor is from no page."}
_ONE: Final = {404: "There is no such event or change."}
_CHANGING: Final = {
    400: "The header Idempotency-Key is missing.",
    404: "There is no such event or change.",
    409: "The event's status, or the broker, does not allow it.",
    412: "The event was changed after you saw it.",
}
_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of CONSOLE_TOKENS_FILE, or API_TOKEN. On loopback, without logins, none is needed.",
}
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "RFC 9457.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "pattern": f"^{PREFIX}"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What failed, and what to do."},
        "errors": {
            "type": "array",
            "description": "What is wrong with which part of the request.",
            "items": {
                "type": "object",
                "properties": {"where": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1 for the routes of the API; made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Open Outbox admin API",
            version=__version__,
            summary="Look at an outbox and steer it.",
            routes=app.routes,
        )
        document["components"]["securitySchemes"] = {"token": _TOKEN}
        document["security"] = [{"token": []}, {}]
        schemas = document["components"]["schemas"]
        schemas["Problem"] = _PROBLEM
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                _add_problems(operation, path, method)
        app.openapi_schema = document
    return app.openapi_schema


def _add_problems(operation: dict[str, Any], path: str, method: str) -> None:
    meanings = dict(_ALWAYS)
    if method == "post":
        meanings |= _CHANGING
    elif path.endswith("}"):
        meanings |= _ONE
    else:
        meanings |= _READING
    own = {int(status): each["description"] for status, each in operation["responses"].items()}
    meanings |= {status: meaning for status, meaning in own.items() if status >= 400 and status not in _ALWAYS}
    if method == "get":
        operation["responses"]["304"] = {"description": "Unchanged: If-None-Match named its ETag."}
    for status, meaning in sorted(meanings.items()):
        content = {"schema": {"$ref": "#/components/schemas/Problem"}}
        operation["responses"][str(status)] = {"description": meaning, "content": {MEDIA_TYPE: content}}
