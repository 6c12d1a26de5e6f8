"""The variables as text: rows, the text of ``relay --help`` and the tables of docs/reference/configuration.md."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

from relay.brokers import kinds
from relay.settings.value_kinds import VariableKind
from relay.settings.variables import GROUPS

_OTEL_MEANING = (
    "The OpenTelemetry standard's variables; metrics and traces are exported over OTLP when "
    "`OTEL_METRICS_EXPORTER=otlp`, `OTEL_TRACES_EXPORTER=otlp` or an OTLP endpoint is set (extra `otel`; see "
    "docs/operate/monitoring.md)."
)
_CARRIES = textwrap.fill(
    "Carries the events of an outbox table in PostgreSQL to "
    f"{kinds.listed([one.title for one in kinds.KINDS.values()])}, and to destinations of other packages.",
    114,
)
_USAGE = f"""\
Usage: relay [--help] [--version]

{_CARRIES}

It takes no other arguments: everything is set by environment variables, also read from a file .env in the working
directory. A shell variable wins over .env; an empty variable counts as unset. Durations are written 500ms, 90s,
1m30s, 24h or 7d; sizes 10485760, 512KiB or 64MiB.
"""


class Row(NamedTuple):
    """One variable, as it is documented."""

    group: str
    variable: str
    kind: str
    default: str
    meaning: str


def describe() -> list[Row]:
    """Every variable, group by group."""
    rows = []
    for group in GROUPS:
        for name, field in group.model_fields.items():
            kind = next(
                part.text for part in _metadata(field.annotation, field.metadata) if isinstance(part, VariableKind)
            )
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            row = Row(group.__doc__ or "", name.upper(), kind, str(extra["shown"]), field.description or "")
            rows.append(row)
    return [*rows, Row("OpenTelemetry", "OTEL_*", "", "none", _OTEL_MEANING)]


def _metadata(annotation: object, metadata: list[object]) -> list[object]:
    """What is noted on a field's type; of an optional one, on the type inside."""
    parts = list(metadata)
    for inner in getattr(annotation, "__args__", ()):
        parts += getattr(inner, "__metadata__", ())
    return parts


def help_text() -> str:
    """The text of ``relay --help``."""
    lines = [_USAGE]
    group = ""
    for row in describe():
        if row.group != group:
            group = row.group
            lines.append(f"{group}:")
        lines.append(f"  {row.variable}" + (f" ({row.kind})" if row.kind else "") + f", default: {row.default}")
        meaning = row.meaning.replace("`", "")
        lines.append(textwrap.fill(meaning, 100, initial_indent=" " * 6, subsequent_indent=" " * 6))
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """The tables of docs/reference/configuration.md."""
    lines: list[str] = []
    group = ""
    names = {row.variable for row in describe()}
    for row in describe():
        if row.group != group:
            group = row.group
            lines += ["", f"## {group}", "", "| variable | default | meaning |", "|---|---|---|"]
        if row.variable.removesuffix("_FILE") in names - {row.variable}:
            continue  # beside its sibling
        file = f", `{row.variable}_FILE`" if f"{row.variable}_FILE" in names else ""
        lines.append(f"| `{row.variable}`{file} | {_choices(row)} | {_linked(row.meaning)} |")
    return "\n".join(lines).strip() + "\n"


def _choices(row: Row) -> str:
    """The default, and of a choice between words the others."""
    others = [word for word in row.kind.split(", ") if word != row.default]
    chosen = ", " in row.kind and row.kind != "true, false"
    return f"{row.default}; or {', '.join(others)}" if chosen else row.default


def _linked(text: str) -> str:
    """The pages that a text names, as links from docs/reference."""
    return re.sub(r"\bdocs/(\w+/([\w-]+)\.md)", r"[\2](../\1)", text)
