"""``python -m relay.telemetry``: rewrite the table of metrics in docs/reference/metrics.md, between its markers."""

from __future__ import annotations

import sys
from pathlib import Path

from relay.core.markers import replace_between, rewrite
from relay.telemetry.catalogue import CATALOGUE

BEGIN = "<!-- begin: python -m relay.telemetry -->"


def markdown() -> str:
    """The metrics as a table."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in CATALOGUE:
        labels = ", ".join(f"`{label}`" for label in (*metric.labels, "relay_id"))
        lines.append(f"| `{metric.name}` | {metric.type} | {labels} | {metric.meaning} |")
    return "\n".join(lines) + "\n"


def renewed(text: str) -> str:
    """A document with the table between the markers replaced. Raises ValueError without markers."""
    return replace_between(text, BEGIN, markdown())


if __name__ == "__main__":
    rewrite(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference/metrics.md"), renewed)
