"""``python -m relay.settings``: rewrite the tables of docs/reference/configuration.md, between its markers."""

from __future__ import annotations

from relay.core.markers import replace_between, rewrite
from relay.settings.describe import markdown

BEGIN = "<!-- begin: python -m relay.settings -->"


def renewed(text: str) -> str:
    """A document with the tables between the markers replaced. Raises ValueError without markers."""
    return replace_between(text, BEGIN, markdown())


if __name__ == "__main__":
    rewrite("docs/reference/configuration.md", renewed)
