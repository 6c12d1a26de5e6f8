"""Runs of acknowledgements are taken before nats-py's parser sees them, and nothing else is.

No server: these tests run with the lowest version of nats-py, too (``make lowest``).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.protocol.parser import Parser

from relay.brokers.nats.acknowledgements import AcknowledgementFilter

PREFIX = "_INBOX.mine."
TAKEN = [
    b'{"stream":"EVENTS","seq":1}',
    b'{"stream":"EVENTS","domain":"hub","seq":18446744073709551615}',
    b'{"stream":"\xc3\xbc","seq":7,"duplicate": true}',
    b'{"stream":"EVENTS","domain":"hub","seq":7,"duplicate":true}',
]
LEFT = [
    b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"EVENTS","seq":0}',
    b'{"stream":"EVENTS","error":{"code":400},"seq":1}',
    b'{"stream":"EVENTS","seq":1,"error":{"code":400}}',
    b'{"stream":"EVENTS","seq":1,"batch":"b","count":2}',
    b'{"stream":"a\\"b","seq":1}',
    b'{"stream":"EVENTS","seq":-1}',
    b'{"stream":"","seq":1}',
    b'{"stream":"EVENTS"}',
    b'{"stream":"EVENTS","seq":1} ',
    b'{"stream":"EVENTS","seq":1}\r\nMSG _INBOX.mine.2 1 27\r\n{"stream":"EVENTS","seq":2}',
    b"",
    b"+OK",
]


def message(subject: str, body: bytes) -> bytes:
    return b"MSG %s 1 %d\r\n%s\r\n" % (subject.encode(), len(body), body)


OTHERS = [
    *(message(f"{PREFIX}5", body) for body in LEFT),
    message("_INBOX.other.5", TAKEN[0]),
    message(f"{PREFIX}5.6", TAKEN[0]),
    message(f"{PREFIX}x", TAKEN[0]),
    b"MSG _INBOX.mine.5 1 _INBOX.reply 27\r\n" + TAKEN[0] + b"\r\n",
    b"HMSG _INBOX.mine.5 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b'INFO {"ldm":true}\r\n',
    b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n",
]

Seen = tuple[str | bytes, ...]


class Recorder:
    """Stands in for the client of a parser: what it is called with, in order."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.messages = 0

    async def _process_msg(self, _sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        self.messages += 1
        self.seen.append((subject, reply, data, headers or b""))

    async def _process_ping(self) -> None:
        self.seen.append(("ping",))

    async def _process_pong(self) -> None:
        self.seen.append(("pong",))

    async def _process_err(self, text: str) -> None:
        self.seen.append(("error", text))

    async def _process_info(self, info: object) -> None:
        self.seen.append(("info", str(info)))

    def take(self, run: Sequence[re.Match[bytes]]) -> None:
        self.seen += [(PREFIX.encode() + match["serial"], b"", match["body"], b"") for match in run]


def parse(reads: Iterable[bytes], *, filtered: bool) -> Recorder:
    recorder = Recorder()
    parser = Parser(recorder)
    acknowledgements = AcknowledgementFilter(parser)
    acknowledgements.start(PREFIX, recorder.take)

    async def run() -> None:
        for data in reads:
            await (acknowledgements.parse(data) if filtered else parser.parse(data))

    asyncio.run(run())
    assert not parser.buf
    return recorder


def acknowledgement(serial: int, body: bytes) -> bytes:
    return message(f"{PREFIX}{serial}", body)


POSITIVE = st.builds(acknowledgement, st.integers(0, 10**9), st.sampled_from(TAKEN))


@given(
    st.lists(POSITIVE | st.sampled_from(OTHERS), max_size=12).map(b"".join),
    st.lists(st.integers(1, 90), max_size=30),
)
def test_the_same_is_seen_as_by_the_library_alone_wherever_a_read_ends(received: bytes, sizes: list[int]) -> None:
    reads, at = [], 0
    for size in sizes:
        reads.append(received[at : at + size])
        at += size
    reads.append(received[at:])
    assert parse(reads, filtered=True).seen == parse([received], filtered=False).seen


def test_of_a_run_the_library_sees_only_what_a_read_cuts() -> None:
    run = b"".join(acknowledgement(serial, TAKEN[serial % len(TAKEN)]) for serial in range(300))
    recorder = parse([run[:10_000], run[10_000:]], filtered=True)
    assert len(recorder.seen) == 300
    assert recorder.messages <= 1


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_acknowledgement_is_left_to_the_library(other: bytes) -> None:
    first, last = acknowledgement(1, TAKEN[0]), acknowledgement(9, TAKEN[1])
    alone = parse([first + other], filtered=False)
    recorder = parse([first + other, last], filtered=True)
    assert recorder.seen[:-1] == alone.seen
    assert recorder.messages == alone.messages - 1


def test_receipts_are_read_from_what_is_taken() -> None:
    runs: list[Sequence[re.Match[bytes]]] = []
    acknowledgements = AcknowledgementFilter(Parser(Recorder()))
    acknowledgements.start(PREFIX, runs.append)
    asyncio.run(acknowledgements.parse(b"".join(acknowledgement(3, body) for body in TAKEN)))
    [run] = runs
    assert [(match["serial"], match["stream"], match["sequence"], bool(match["duplicate"])) for match in run] == [
        (b"3", b"EVENTS", b"1", False),
        (b"3", b"EVENTS", b"18446744073709551615", False),
        (b"3", "ü".encode(), b"7", True),
        (b"3", b"EVENTS", b"7", True),
    ]
