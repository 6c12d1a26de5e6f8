"""The parts of docs/reference/http.md and http-examples.md that are made from the routes and the examples.

Connects to nothing. Each part replaces what stands between the markers of its page: ValueError without markers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from deploy.reference.examples import EXAMPLES, Example
from relay.console.access.rules import route_rules
from relay.console.api.document import openapi_document
from relay.console.app import API, build_console
from relay.core.markers import replace_between
from relay.settings.settings import Settings

BEGIN: Final = "<!-- begin: python -m deploy.reference -->"
_SETTINGS: Final = {"STORAGE_URL": "postgres://reader@127.0.0.1:1/none"}
"""Enough to build the routes; no database is there."""


def table() -> str:
    """The operations as a table."""
    console = build_console(Settings.from_env(_SETTINGS))
    roles = {
        f"{method} {rule.path.replace(':path', '')}": rule.role
        for rule in route_rules(console)
        for method in rule.methods
    }
    lines = ["| request | role | what it does |", "|---|---|---|"]
    for path, operations in openapi_document(console)["paths"].items():
        for method, operation in operations.items():
            request = f"{method.upper()} {path}"
            meaning = " ".join(operation["description"].split())
            lines.append(f"| `{request.replace(API, '')}` | {roles[request]} | {meaning} |")
    return "\n".join(lines) + "\n"


def examples() -> str:
    """Each operation with its examples: a request and its answer."""
    lines: list[str] = []
    for operation in dict.fromkeys(example.operation for example in EXAMPLES):
        lines += [f"## `{operation}`", ""]
        for example in (each for each in EXAMPLES if each.operation == operation):
            lines += [f"{example.name[0].upper()}{example.name[1:]}:", "", "```http", *_exchange(example), "```", ""]
    return "\n".join(lines)


def _exchange(example: Example) -> Iterator[str]:
    method, path, query, headers = example.request()
    yield f"{method} {API}{path}{'?' if query else ''}{urlencode(query, doseq=True, safe=':=')}"
    yield from (f"{name.title()}: {value}" for name, value in headers.items())
    if example.body is not None:
        yield from ("Content-Type: application/json", "", _json(example.body))
    yield from ("", f"HTTP/1.1 {example.status} {HTTPStatus(example.status).phrase}", "", _json(example.answer))


def _json(value: object) -> str:
    """One line where it fits, as JSON of several lines otherwise."""
    line = json.dumps(value)
    return line if len(line) <= 110 else json.dumps(value, indent=2)


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/reference/http.md": table,
    "docs/reference/http-examples.md": examples,
}
"""What makes the part of each page."""


def renewed(page: str, text: str) -> str:
    """The text of a page with its part replaced."""
    return replace_between(text, BEGIN, PAGES[page]())
