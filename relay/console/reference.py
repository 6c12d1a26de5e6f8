"""``python -m relay.console.reference``: rewrite the table in docs/reference/http.md, between its markers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from relay.console.access.rules import route_rules
from relay.console.api.document import openapi_document
from relay.console.app import API, build_console
from relay.core.markers import replace_between, rewrite
from relay.settings.settings import Settings

BEGIN: Final = "<!-- begin: python -m relay.console.reference -->"
_SETTINGS: Final = {"STORAGE_URL": "postgres://reader@127.0.0.1:1/none"}
"""Enough to build the routes; no database is there."""


def markdown() -> str:
    """The operations as a table. Connects to nothing."""
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


def renewed(text: str) -> str:
    """A document with the table between the markers replaced. Raises ValueError without markers."""
    return replace_between(text, BEGIN, markdown())


if __name__ == "__main__":
    rewrite(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference/http.md"), renewed)
