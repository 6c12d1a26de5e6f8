"""Text from outside (applications, brokers, receivers): cut before anything looks at it.

What is made of it (an error, a log field, an attribute of a span) has a bounded length, and so has the work on it.
"""

from __future__ import annotations

import re
from typing import Final

from relay.core.secrets import MASK, mask_secrets

LONGEST_TEXT: Final = 2000
"""Characters of a reason, of ``last_error``, of a field of a log line, of an attribute of a span."""
_READ: Final = 2
"""How many times that is masked: a secret that begins before the cut, and ends behind it, is known by its end."""


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """``text``; of a longer one the begin, with a mark that it went on."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def harmless(text: str, kept: str = "") -> str:
    """``text`` without what controls a terminal or turns the direction of text around: escaped, but for ``kept``."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else _escape(one) for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def shown(text: str, longest: int = LONGEST_TEXT, known: re.Pattern[str] | None = None) -> str:
    """``text`` cut, and without secrets; ``known`` matches those that no shape or name gives away."""
    text = cut(text, _READ * longest)
    return cut(mask_secrets(text if known is None else known.sub(MASK, text)), longest)
