"""Names of destinations with gaps: ``shop.{type}``, ``{tenant}.orders``, ``{header:region}.{type}``.

Pure. A template is read once, at the start, and filled in for each event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_GAP: Final = re.compile(r"\{([^{}]*)\}")
_HEADER: Final = "header:"
TYPE: Final = "type"
TENANT: Final = "tenant"


class Missing(NamedTuple):
    """A header that a template needs and the event does not have, or has empty."""

    header: str


class Template(NamedTuple):
    """A template that was read: texts, and between them the headers to fill in; None stands for the event's type."""

    text: str
    """As the user wrote it."""
    texts: tuple[str, ...]
    gaps: tuple[str | None, ...]

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that it needs."""
        return tuple(gap for gap in self.gaps if gap is not None)

    def around(self, event_type: str) -> list[str]:
        """What stands around its headers, for an event of this type: a text more than there are headers."""
        texts = [self.texts[0]]
        for gap, text in zip(self.gaps, self.texts[1:], strict=True):
            if gap is None:
                texts[-1] += event_type + text
            else:
                texts.append(text)
        return texts

    def fill(self, event_type: str, headers: Mapping[str, str]) -> str | Missing:
        """The name for an event; Missing when a header that it needs is absent or empty."""
        name = self.texts[0]
        for gap, text in zip(self.gaps, self.texts[1:], strict=True):
            value = event_type if gap is None else headers.get(gap)
            if gap is not None and not value:
                return Missing(gap)
            name += f"{value}{text}"
        return name


def read_template(text: str, tenant_header: str) -> Template:
    """Read a template. ``tenant_header`` is what ``{tenant}`` stands for. Raises ValueError with what is allowed."""
    texts: list[str] = []
    gaps: list[str | None] = []
    at = 0
    for match in _GAP.finditer(text):
        texts.append(text[at : match.start()])
        gaps.append(_gap(match[1], tenant_header))
        at = match.end()
    texts.append(text[at:])
    if any(brace in one for one in texts for brace in "{}"):
        raise ValueError(f"{text!r} has an unmatched brace")
    if not text:
        raise ValueError("a name is empty; write for example {type}")
    return Template(text, tuple(texts), tuple(gaps))


def _gap(name: str, tenant_header: str) -> str | None:
    if name == TYPE:
        return None
    if name == TENANT:
        return tenant_header
    if name.startswith(_HEADER) and name != _HEADER:
        return name.removeprefix(_HEADER)
    raise ValueError(f"{{{name}}} is not known; write {{type}}, {{tenant}} or {{header:NAME}}")
