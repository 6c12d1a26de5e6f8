"""Takes a stream's positive acknowledgements out of the received bytes, before nats-py's parser sees them.

JetStream acknowledges each message by one small MSG on the message's reply subject:

    MSG _INBOX.<session>.<number> <subscription> <size>
    {"stream":"EVENTS","seq":17}

with ``"domain":"…"`` before ``seq`` and ``"duplicate": true`` behind it where they apply. nats-py parses each of them,
builds an object of it, and passes it through a queue to a task: a fifth of the client's processor time. Here one
regular expression takes a whole run of them.

Only what matches to the byte is taken. Everything else goes to the library's parser unchanged and in order: errors
(``"error":…``), the server's status 503, PING and PONG, other subscriptions, and acknowledgements of a form that is
not known here. The library then calls back as it does without this module.

A read may end within a message. What is left then waits in the library's parser. The next read goes on there: with
the rest of a message whose first line was parsed, or, within that line, with all that is not parsed yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from nats.errors import Error, ProtocolError

_LINE_END = 2  # bytes behind a message's body
_MOST = 2 << 20  # bytes of one line or message; a server's own limit is 1 MiB for a message, unless it was raised
# A name that needs an escape in JSON does not match; the numbers are as long as the server's longest.
_NAME = rb'[^"\\\x00-\x1f]'
_BODY = rb'\{"stream":"(?P<stream>' + _NAME + rb'+)"(?:,"domain":"' + _NAME + rb'*")?,"seq":(?P<sequence>\d{1,20})'
_BODY += rb'(?P<duplicate>,"duplicate": ?true)?\}'


class LibraryParser(Protocol):
    """What this module uses of nats-py's parser, an undocumented part of it."""

    state: int
    """Whether a message's first line is next, as at the start, or the rest of a message."""
    needed: int
    """Bytes of the body of the message whose first line was parsed."""
    buf: bytearray
    """What was received and is not parsed."""

    def reset(self) -> None:
        """Forget what was received."""

    async def parse(self, data: bytes = b"") -> None:
        """Take what was received."""


Take = Callable[[Sequence[re.Match[bytes]]], None]
"""Takes a run of acknowledgements, each with the groups ``serial``, ``stream``, ``sequence`` and ``duplicate``."""


class AcknowledgementFilter:
    """Stands in for the parser of one client; see the module's text."""

    def __init__(self, parser: LibraryParser) -> None:
        """``parser`` has not received anything yet."""
        self._parser = parser
        self._first_line_is_next = parser.state
        self._pattern: re.Pattern[bytes] | None = None
        self._take: Take | None = None

    def start(self, prefix: str, take: Take) -> None:
        """Take the acknowledgements on the subjects that are ``prefix`` and a number."""
        line = rb"MSG " + re.escape(prefix.encode()) + rb"(?P<serial>\d{1,20}) \d+ (?P<size>\d{1,9})\r\n"
        self._pattern = re.compile(line + rb"(?P<body>" + _BODY + rb")\r\n")
        self._take = take

    def reset(self) -> None:
        """Forget what was received."""
        self._parser.reset()

    async def parse(self, data: bytes = b"") -> None:
        """Take what was received. Raises ProtocolError for what is no protocol or has no end."""
        try:
            await self._parse(data)
        except (Error, OSError):
            raise
        except Exception as error:
            raise ProtocolError from error

    async def _parse(self, data: bytes) -> None:
        parser = self._parser
        if parser.state != self._first_line_is_next:
            missing = parser.needed + _LINE_END - len(parser.buf)
            await parser.parse(data[:missing])
            data = data[missing:]
        elif parser.buf:
            data = bytes(parser.buf) + data
            parser.buf.clear()
        if rest := data[self._take_run(data) :]:
            await parser.parse(rest)
        if len(parser.buf) > _MOST or (parser.state != self._first_line_is_next and parser.needed > _MOST):
            raise ProtocolError

    def _take_run(self, data: bytes) -> int:
        """Take the acknowledgements that ``data`` begins with; returns how many bytes they are."""
        if self._pattern is None or self._take is None:
            return 0
        run, end = [], 0
        for match in self._pattern.finditer(data):
            size = match.end("body") - match.start("body")
            if match.start() != end or size != int(match["size"]):
                break
            run.append(match)
            end = match.end()
        if run:
            self._take(run)
        return end
