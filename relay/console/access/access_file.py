"""CONSOLE_TOKENS_FILE, which names who may: lines ``role name hash``, read again when the file changes.

At the start every line must be right. Later a wrong line is left out and costs no other line; of a file that cannot
be read no line counts. Both are logged once for each content of the file.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relay.console.access.access_role import AccessRole, Identity, valid_name
from relay.console.access.tokens import read_token_hash
from relay.core.errors import ConfigError
from relay.core.filemark import FileMark, file_mark

logger = logging.getLogger(__name__)

_VARIABLE: Final = "CONSOLE_TOKENS_FILE"
_LARGEST_FILE: Final = 2**20  # bytes
_SETTLED_AFTER: Final = 2.0  # seconds; a file system may give two writes within one tick the same time


@dataclass(frozen=True, slots=True)
class AccessLine:
    """One line: an identity, and the hash of the token that proves it."""

    identity: Identity
    hash: str


class AccessFile:
    """The lines of the file."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises ConfigError with every wrong line."""
        self._path = path
        self._state: FileMark = None
        self._settled = False
        self._content: bytes | None = None
        self._lines: tuple[AccessLine, ...] = ()
        problems = self._read() or self._missing()
        if problems:
            raise ConfigError("\n".join(f"{_VARIABLE}: {problem}" for problem in problems))

    def lines(self) -> tuple[AccessLine, ...]:
        """The lines as the file has them now."""
        if not self._settled or self._state != file_mark(self._path):
            before = self._content
            problems = self._read()
            if self._content != before:
                self._log(problems)
        return self._lines

    def _log(self, problems: list[str]) -> None:
        if self._content is not None:
            logger.info(
                "%s: %s was read again: %d lines",
                _VARIABLE,
                self._path,
                len(self._lines),
                extra={"action": "access_file_read"},
            )
        for problem in problems:
            logger.error("%s: %s", _VARIABLE, problem, extra={"action": "access_file_wrong"})

    def _missing(self) -> list[str]:
        return [] if self._lines else [f"{self._path} has no line: write role, name and hash"]

    def _read(self) -> list[str]:
        """Read the file, take its right lines, and return what is wrong with the others."""
        # The state is taken before the content: a change in between is then read at the next request.
        self._state = file_mark(self._path)
        self._settled = self._state is not None and time.time() - self._state[0] / 1e9 > _SETTLED_AFTER
        try:
            content = self._path.read_bytes()
            if len(content) > _LARGEST_FILE:
                raise ValueError("larger than 1 MiB")
            text = content.decode()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else _reason(error)
            self._content, self._lines = None, ()
            return [f"{self._path} cannot be read: {reason}"]
        if content == self._content:
            return []
        self._content = content
        lines, problems = self._parse(text)
        self._lines = tuple(lines)
        return problems

    def _parse(self, text: str) -> tuple[list[AccessLine], list[str]]:
        lines: list[AccessLine] = []
        problems = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                lines.append(_parsed(line))
            except ValueError as error:
                problems.append(f"{self._path} line {number}: {error}")
        return lines, problems


def _parsed(line: str) -> AccessLine:
    """Raises ValueError. No message shows a part of the line: a token may stand anywhere in a wrong one."""
    parts = line.split()
    if len(parts) != 3:
        raise ValueError("a line is role, name and hash, with blanks between them")
    role, name, hash_text = parts
    if not valid_name(name):
        raise ValueError("the name must be printable and at most 200 characters long")
    return AccessLine(Identity(name, AccessRole.parse(role)), read_token_hash(hash_text))


def _reason(error: ValueError) -> str:
    return "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
