"""Where a secret came from, so that each new connection has the present one: a file, or a command for the password.

``relay.settings`` says where it read a value; what connects asks for the origin of the value that it was given, and
then for the present one. A file that cannot be read, while it is being replaced for example, leaves the last value in
use. Nothing here is shown: no message has a part of a secret. Safe to call from any thread; reading may block.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import quote, unquote

from relay.core.durations import in_words
from relay.core.errors import StorageUnavailable
from relay.core.known_secrets import KNOWN_SECRETS, secrets_in

logger: Final = logging.getLogger(__name__)

LONGEST_COMMAND: Final = 10.0
"""Seconds that a command for a password may take."""
_GOOD_FOR: Final = 60.0  # seconds, without a time of its own
AHEAD: Final = 15.0
"""Seconds before its end at which a client that connects without asking gets the next password."""
_LOGIN: Final = re.compile(r"(?P<scheme>[\w+]+://)?(?:(?P<login>[^@/?#,]*)@)?(?P<rest>.*)", re.DOTALL)
_PASSWORD: Final = re.compile(r"[?&]password=[^&]")
T = TypeVar("T")
_origins: Final[dict[str, SecretOrigin]] = {}


class PasswordCommand:
    """A command that prints a password, and in a second line, if any, until when it is good (RFC 3339)."""

    def __init__(self, variable: str, text: str) -> None:
        """``text`` is parted as a shell parts it, and run without one. Raises ValueError for an open quote."""
        self._variable = variable
        self._arguments = shlex.split(text)
        self._lock = threading.Lock()
        self._password = ""
        self._until = self._life = 0.0

    @property
    def until(self) -> float:
        """Until when the last password is good, in seconds since 1970."""
        return self._until

    def password(self, ahead: float = 0.0) -> str:
        """The password that is good now, and for ``ahead`` seconds. Raises StorageUnavailable where the command fails.

        Ahead of time, within the last half of its life, a command that fails leaves the one that is still good.
        """
        with self._lock:
            now = time.time()
            if now >= self._until - min(ahead, self._life / 2):
                try:
                    self._password, self._until = self._run()
                    self._life = self._until - now
                    KNOWN_SECRETS.renewed((self._password, quote(self._password, safe="")))
                except StorageUnavailable:
                    if now >= self._until:
                        raise
            return self._password

    def refused(self) -> None:
        """The server has refused the password: the next one is a new one."""
        with self._lock:
            self._until = 0.0

    def _run(self) -> tuple[str, float]:
        try:
            code, printed = _finished(self._arguments)
            lines = printed.decode().splitlines()
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError, ValueError) as error:
            raise self._failed(_reason(error)) from None
        if code != 0:
            raise self._failed(f"it ended with exit code {code}")
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
        self._last = ""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="secret")
        """Of its own: a command that hangs holds up nothing else that waits for a thread."""

    async def off_loop(self, call: Callable[[], T]) -> T:
        """What ``call`` returns, which may block."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def present(self, last: str) -> str:
        """The value now; ``last`` where it cannot be read, which is said once for each reason."""
        if self._read is None:
            return last
        try:
            value = self._read()
        except ValueError as error:
            self.say(str(error))
            return self._last or last
        if value != self._last:
            KNOWN_SECRETS.renewed(secrets_in(value))
        self._last = value
        return value

    def say(self, reason: str) -> None:
        """Warn that the value that was read last stays in use."""
        if reason != self._said:
            text = "%s cannot be read again: %s; the value that was read last is used"
            logger.warning(text, self._variable, reason, extra={"action": "secret_unread"})
        self._said = reason


class LiveUrl:
    """A URL whose login may change: each new connection asks for the ``present`` one."""

    def __init__(self, url: str, command: PasswordCommand | None = None, ahead: float = 0.0) -> None:
        """``ahead`` as for ``PasswordCommand.password``."""
        self.command = command
        self.latest = url
        """As ``present`` returned it last."""
        self._url = url
        self._origin = of(url) or SecretOrigin("")
        self._ahead = ahead

    @property
    def until(self) -> float:
        """Until when the password of the command is good, in seconds since 1970."""
        return self.command.until if self.command is not None else 0.0

    async def present(self) -> str:
        """As it is now. Raises StorageUnavailable where the command gives no password."""
        return await self._origin.off_loop(self._now)

    def refused(self) -> None:
        """The server has refused the login."""
        if self.command is not None:
            self.command.refused()

    def say(self, reason: str) -> None:
        """Warn, once for each reason, that the value of before stays in use."""
        self._origin.say(reason)

    def _now(self) -> str:
        url = self._origin.present(self._url)
        self.latest = url if self.command is None else _with_password(url, self.command.password(self._ahead))
        return self.latest


class LiveSecret:
    """A secret whose file may change: each use asks for the ``present`` one."""

    def __init__(self, value: str, shortest: int = 1) -> None:
        """A new value of fewer characters than ``shortest`` is not taken, unless the first had fewer, too."""
        self._value = value
        self._origin = of(value)
        self._shortest = min(shortest, len(value))

    def present(self) -> str:
        """As it is now; reads a file."""
        if self._origin is not None:
            value = self._origin.present(self._value)
            if len(value) >= self._shortest:
                self._value = value
            else:
                self._origin.say(f"it is shorter than {self._shortest} characters")
        return self._value


def login_of(url: str) -> tuple[str, str]:
    """User and password of a URL, decoded; empty where it has none."""
    match = _LOGIN.fullmatch(url.strip())
    user, _, password = ((match and match["login"]) or "").partition(":")
    return unquote(user), unquote(password)


def has_password(url: str) -> bool:
    """Whether a URL has a password of its own, which wins over a command's."""
    return bool(login_of(url)[1]) or _PASSWORD.search(url) is not None


def _finished(arguments: list[str]) -> tuple[int, bytes]:
    """The exit code of a command and what it printed. At its deadline it ends with all that it has started."""
    with subprocess.Popen(  # noqa: S603 - the operator's own command
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=LONGEST_COMMAND)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, printed


def _with_password(url: str, password: str) -> str:
    """A URL with the password of its user; its own wins."""
    match = _LOGIN.fullmatch(url.strip())
    if match is None or ":" in (match["login"] or ""):
        return url
    return f"{match['scheme'] or ''}{match['login'] or ''}:{quote(password, safe='')}@{match['rest']}"


def remember(value: str, origin: SecretOrigin) -> None:
    """Say where ``value`` came from. The command of one variable serves another one with the same value."""
    if origin.command is None and value in _origins:
        origin.command = _origins[value].command
    _origins[value] = origin


def of(value: str) -> SecretOrigin | None:
    """Where ``value`` came from; None for one that never changes."""
    return _origins.get(value)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took longer than {in_words(LONGEST_COMMAND)}"
    if isinstance(error, OSError):
        return f"it cannot be started: {error.strerror}"
    return "what it prints is not UTF-8 text"
