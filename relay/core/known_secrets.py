"""The secrets of this process, which its log masks wherever they stand: a bare password has no name and no shape.

``relay.core.secrets`` masks what does. Settings and the files that they name say theirs at the start, and
``relay.core.origins`` says each one that takes another's place.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

_LOGIN: Final = re.compile(r"([^/@:\s]*):([^/@\s]+)@")
_SHORTEST: Final = 8
"""Characters; a shorter one would mask words that are none."""
_RENEWED: Final = 32
"""Most that have taken the place of others: a command may print a new one each minute."""


class KnownSecrets:
    """Grows; of those that were renewed the oldest ones go."""

    def __init__(self) -> None:
        self.pattern: re.Pattern[str] | None = None
        """Matches each of them, the longest first; None where there are none."""
        self._first: frozenset[str] = frozenset()
        self._renewed: deque[str] = deque(maxlen=_RENEWED)

    def know(self, secrets: Iterable[str]) -> None:
        """Mask these for as long as the process lives."""
        self._first |= frozenset(secrets)
        self._compile()

    def renewed(self, secrets: Iterable[str]) -> None:
        """Mask these, too."""
        self._renewed.extend(one for one in secrets if len(one) >= _SHORTEST and one not in self._renewed)
        self._compile()

    def _compile(self) -> None:
        texts = "|".join(map(re.escape, sorted({*self._first, *self._renewed}, key=len, reverse=True)))
        self.pattern = re.compile(texts) if texts else None


KNOWN_SECRETS: Final = KnownSecrets()
"""Those of this process."""


def secrets_in(value: str) -> Iterator[str]:
    """A secret's words; of a URL the password of each login, as it stands and decoded, unless it is no secret."""
    found = [] if "://" in value else value.split()
    rest = _LOGIN.sub("", value)
    for login in _LOGIN.finditer(value):
        found += [one for one in {login[2], unquote(login[2])} if one not in login[1] and one not in rest]
    return (one for one in found if len(one) >= _SHORTEST)
