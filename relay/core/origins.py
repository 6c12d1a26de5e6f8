"""Where a secret came from, so that each new connection has the present one: a file, or a command for the password.

``relay.settings`` says where it read a value; what connects asks for the origin of the value that it was given, and
then for the present one. A file that cannot be read, while it is being replaced for example, leaves the last value in
use. Nothing here is shown: no message has a part of a secret. Safe to call from any thread; reading may block.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from relay.core.errors import StorageUnavailable

logger: Final = logging.getLogger(__name__)

LONGEST_COMMAND: Final = 10.0
"""Seconds that a command for a password may take."""
_GOOD_FOR: Final = 60.0  # seconds, without a time of its own
_origins: Final[dict[str, SecretOrigin]] = {}


class PasswordCommand:
    """A command that prints a password, and in a second line, if any, until when it is good (RFC 3339)."""

    def __init__(self, variable: str, text: str) -> None:
        """``text`` is parted as a shell parts it, and run without one. Raises ValueError for an open quote."""
        self._variable = variable
        self._arguments = shlex.split(text)
        self._lock = threading.Lock()
        self._password = ""
        self._until = 0.0

    def password(self) -> str:
        """The password that is good now. Raises StorageUnavailable where the command fails."""
        with self._lock:
            if time.time() >= self._until:
                self._password, self._until = self._run()
            return self._password

    def refused(self) -> None:
        """The server has refused the password: the next one is a new one."""
        with self._lock:
            self._until = 0.0

    def _run(self) -> tuple[str, float]:
        try:
            done = subprocess.run(  # noqa: S603 - the operator's own command
                self._arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST_COMMAND, check=False
            )
            lines = done.stdout.decode().splitlines()
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError, ValueError) as error:
            raise self._failed(_reason(error)) from None
        if done.returncode != 0:
            raise self._failed(f"it ended with exit code {done.returncode}")
        if not lines or not lines[0]:
            raise self._failed("its first line is empty")
        return lines[0], self._good_until(lines[1].strip() if len(lines) > 1 else "")

    def _good_until(self, text: str) -> float:
        if not text:
            return time.time() + _GOOD_FOR
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise self._failed("its second line is no time with a zone, such as 2030-01-31T12:00:00Z")
        return moment.timestamp()

    def _failed(self, reason: str) -> StorageUnavailable:
        return StorageUnavailable(f"{self._variable} gives no password: {reason}")


class SecretOrigin:
    """Where one value came from."""

    def __init__(
        self, variable: str, read: Callable[[], str] | None = None, command: PasswordCommand | None = None
    ) -> None:
        """``read`` returns the present value, and raises ValueError; None for one that stays."""
        self.command = command
        self._variable = variable
        self._read = read
        self._said = ""

    def present(self, last: str) -> str:
        """The value now; ``last`` where it cannot be read, which is said once for each reason."""
        if self._read is None:
            return last
        try:
            value = self._read()
        except ValueError as error:
            self.say(str(error))
            return last
        return value

    def say(self, reason: str) -> None:
        """Warn that the value that was read last stays in use."""
        if reason != self._said:
            text = "%s cannot be read again: %s; the value that was read last is used"
            logger.warning(text, self._variable, reason, extra={"action": "secret_unread"})
        self._said = reason


def remember(value: str, origin: SecretOrigin) -> None:
    """Say where ``value`` came from."""
    _origins[value] = origin


def of(value: str) -> SecretOrigin | None:
    """Where ``value`` came from; None for one that never changes."""
    return _origins.get(value)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took longer than {LONGEST_COMMAND:g} s"
    if isinstance(error, OSError):
        return f"it cannot be started: {error.strerror}"
    return "what it prints is not UTF-8 text"
