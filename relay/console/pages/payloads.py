"""Payloads as pages show them: JSON indented, any other text as it is, other bytes in hexadecimal."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from relay.console.api.models import payload_text
from relay.core.json_text import indented

_LONGEST: Final = 200_000  # characters that a page shows


class ShownPayload(NamedTuple):
    """A payload as a page shows it."""

    text: str
    kind: str
    """``JSON``, ``text`` or ``hexadecimal``."""
    cut: bool
    """Whether this is its beginning alone."""
    length: int
    """Bytes of the whole payload."""

    @classmethod
    def of(cls, payload: bytes) -> ShownPayload:
        """The payload, cut where a page would be too long."""
        text = payload_text(payload)
        cut = len(payload) > _LONGEST
        if text is None:
            return cls(payload[: _LONGEST // 3].hex(" "), "hexadecimal", cut, len(payload))
        document = None if cut else indented(text)
        if document is None:
            return cls(text[:_LONGEST], "text", cut, len(payload))
        return cls(_in_json(document), "JSON", cut, len(payload))


def _in_json(document: str) -> str:
    """A document without what turns text around, in the escapes of JSON: it stays one."""
    if document.isprintable():
        return document
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in document)
