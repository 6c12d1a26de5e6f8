"""``python -m relay.telemetry``: rewrite the tables of metrics in docs/reference/metrics.md, between their markers."""

from __future__ import annotations

from relay.core.markers import replace_between, rewrite
from relay.telemetry.catalogue import CATALOGUE, Section


def markdown(section: Section) -> str:
    """The metrics of one part as a table; the page says that each has ``relay_id`` as well."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in CATALOGUE:
        if metric.section is section:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            lines.append(f"| `{metric.name}` | {metric.type} | {labels} | {metric.meaning} |")
    return "\n".join(lines) + "\n"


def renewed(text: str) -> str:
    """A document with the table of each section replaced. Raises ValueError without its markers."""
    for section in Section:
        text = replace_between(text, f"<!-- begin: python -m relay.telemetry: {section} -->", markdown(section))
    return text


if __name__ == "__main__":
    rewrite("docs/reference/metrics.md", renewed)
