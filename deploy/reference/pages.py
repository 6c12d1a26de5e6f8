"""The parts of docs/reference: http.md from the routes and the examples, sql.md from the grants.

Connects to nothing. Each part replaces what stands between the markers of its page: ValueError without markers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from deploy.reference.examples import EXAMPLES, Example
from relay.app.database_roles import RolesRequest, Rooms
from relay.console.access.access_role import AccessRole
from relay.console.access.route_roles import route_rules
from relay.console.api.document import openapi_document
from relay.console.app import API, build_console
from relay.core.markers import replace_between
from relay.core.role import Role
from relay.postgres.grants import rights_of
from relay.postgres.roles import GROUPS
from relay.postgres.sql import TableName
from relay.settings.settings import Settings

BEGIN: Final = "<!-- begin: python -m deploy.reference -->"
_SETTINGS: Final = {"STORAGE_URL": "postgres://reader@127.0.0.1:1/none"}
"""Enough to build the routes; no database is there."""
_STORE: Final = "by `relay-cli store grant`"
_BESIDES: Final = {
    Role.MIGRATE: ["owns every table, sequence and function; USAGE and CREATE on their schema, CREATE on the database"],
    Role.RELAY: ["with `ON_DELIVERED=delete` DELETE on `openoutbox_events`"],
    Role.EVENTSTORE: [_STORE],
    Role.CONSOLE: [_STORE],
}
"""What is not a list of rights."""


def admin_api() -> str:
    """The operations as a table, and the examples."""
    return f"{table()}\n### Examples\n\n{examples()}"


def table() -> str:
    """The operations as two tables: what asks by its path, what changes by the first sentence of its description."""
    console = build_console(Settings.from_env(_SETTINGS))
    roles = {
        f"{method} {rule.path.replace(':path', '')}": rule.role
        for rule in route_rules(console)
        for method in rule.methods
    }
    reads: dict[tuple[str, AccessRole | None], list[str]] = {}
    changes = []
    for path, operations in openapi_document(console)["paths"].items():
        short = path.replace(API, "")
        for method, operation in operations.items():
            role = roles[f"{method.upper()} {path}"]
            if method == "get":
                reads.setdefault((short.split("/")[1], role), []).append(f"`{short}`")
            else:
                meaning = " ".join(operation["description"].split()).partition(". ")[0].rstrip(".")
                changes.append(f"| `{method.upper()} {short}` | {role} | {meaning} |")
    lines: list[str] = []
    for reader in dict.fromkeys(role for _, role in reads):
        paths = [f"| {', '.join(reads[key])} |" for key in reads if key[1] == reader]
        lines += [f"| `GET`, for a {reader} |", "|---|", *paths, ""]
    lines += ["| request | role | what it does |", "|---|---|---|", *changes]
    return "\n".join(lines) + "\n"


def examples() -> str:
    """The examples that the page shows: a request and its answer."""
    lines: list[str] = []
    for example in (each for each in EXAMPLES if each.shown):
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


def roles() -> str:
    """The database's roles, each with the rights that relay-cli roles gives it where all parts are there."""
    rooms = Rooms(TableName(), RolesRequest(TableName()), None)
    lines = ["| role | for | `check --for` | rights |", "|---|---|---|---|"]
    for group in GROUPS:
        rights: dict[str, dict[str, list[str]]] = {}
        for right in rights_of(rooms.grants(group)):
            if (right.kind, right.privilege) == ("schema", "USAGE"):
                continue  # it comes with the rights on what is in it
            kind = "schema " if right.kind == "schema" else ""
            place = f"{kind}`{right.object.replace(chr(34), '')}`"
            columns = rights.setdefault(place, {}).setdefault(right.privilege, [])
            columns += [right.column] if right.column else []
        places: dict[str, list[str]] = {}
        for name, each in rights.items():
            places.setdefault(", ".join(map(_privilege, each, each.values())), []).append(name)
        cells = [f"{', '.join(names)}: {privileges}" for privileges, names in places.items()]
        cells += _BESIDES.get(group.role, [])
        lines.append(f"| `{group.name}` | {group.work} | `{group.role}` | {'; '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _privilege(name: str, columns: list[str]) -> str:
    return f"{name} ({', '.join(columns)})" if columns else name


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/reference/http.md": admin_api,
    "docs/reference/sql.md": roles,
}
"""What makes the part of each page."""


def renewed(page: str, text: str) -> str:
    """The text of a page with its part replaced."""
    return replace_between(text, BEGIN, PAGES[page]())
