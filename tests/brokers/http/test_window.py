"""How many requests may be under way at one endpoint: by need, and by what the receiver takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from relay.brokers.http.window import RequestWindow
from relay.core.outcome import Acknowledged, TimedOut, Transient
from tests.brokers.harness.base import Collector, make_event
from tests.brokers.http.publishing import opened, outcomes
from tests.support.waiting import eventually

DEFAULT_CEILING = 64


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A window, and rounds of answers that take ``seconds`` each."""

    def __init__(self, ceiling: int = DEFAULT_CEILING) -> None:
        self.clock = Clock()
        self.window = RequestWindow(ceiling, self.clock)

    def round(self, seconds: float = 0.1, *, status: int = 204, waiting: bool = True, proven: bool = True) -> int:
        """As many answers as may be under way. Returns how many may be then."""
        self.clock.now += 0.001
        began = self.clock.now
        self.clock.now += seconds
        for _ in range(self.window.places(1_000 if waiting else 1)):
            self.window.answer(status, began, waiting=waiting, proven=proven)
        return self.window.size


def test_each_round_adds_one_up_to_the_ceiling() -> None:
    scene = Scene(12)
    assert [scene.round() for _ in range(6)] == [9, 10, 11, 12, 12, 12]


def test_a_ceiling_below_the_start_is_the_start() -> None:
    scene = Scene(3)
    assert [scene.round() for _ in range(3)] == [3, 3, 3]


def test_only_need_answers_of_success_and_a_proven_connection_add_one() -> None:
    scene = Scene()
    assert scene.round(waiting=False) == scene.round(status=404) == scene.round(proven=False) == 8


def test_a_round_is_no_shorter_than_a_moment() -> None:
    scene = Scene()
    assert [scene.round(0.01) for _ in range(5)] == [8, 8, 8, 8, 9]


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_halves_once_for_all_that_was_under_way(status: int) -> None:
    scene = Scene()
    while scene.round() < 40:
        pass
    assert [scene.round(status=status) for _ in range(7)] == [20, 10, 5, 2, 1, 1, 1]
    assert scene.round() == 2


def test_two_slower_rounds_in_a_row_halve_down_to_the_start_and_are_the_measure_then() -> None:
    scene = Scene()
    while scene.round(0.05) < 40:
        pass
    assert (scene.round(0.2), scene.round(0.05), scene.round(0.2), scene.round(0.2)) == (40, 41, 41, 20)
    assert (scene.round(0.2), scene.round(0.2)) == (21, 22), "a receiver that has become slower is one that is so"
    scene.round(1.0)
    assert scene.round(1.0) == 11
    for seconds in (2.0, 4.0, 8.0, 16.0, 32.0):
        scene.round(seconds)
        scene.round(seconds)
        assert scene.window.size >= 8


def test_what_was_sent_before_it_was_narrowed_says_nothing_of_it() -> None:
    scene = Scene()
    began = scene.clock.now
    scene.clock.now += 0.1
    scene.window.fill(3)
    for _ in range(9):
        scene.window.answer(204, began, waiting=True, proven=True)
        scene.window.answer(503, began, waiting=True, proven=True)
    assert scene.window.size == 3


def test_without_need_it_starts_again() -> None:
    scene = Scene()
    while scene.round() < 20:
        pass
    scene.clock.now += 29.0
    assert scene.window.places(500) == 20
    scene.clock.now += 31.0
    assert scene.window.places(500) == 8


class Receiver:
    """Answers each request after a time, or when the test says so."""

    def __init__(self, delay: float | None, *, answering: int = 1_000) -> None:
        """``answering``: the first of so many connections are answered, others never."""
        self._delay = delay
        self._answering = answering
        self._server: asyncio.Server
        self.accepted = self.connected = self.most = 0
        self.open: list[asyncio.StreamWriter] = []
        """Requests without an answer."""
        self.port = 0

    def answer(self, status: str) -> None:
        """Answer all that are open."""
        answered, self.open = self.open, []
        for writer in answered:
            self._write(writer, status)

    def refuse(self) -> None:
        """Take no further connection."""
        self._server.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Receiver]:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.connected += 1
        answers = self.accepted <= self._answering
        with suppress(asyncio.IncompleteReadError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):  # events without payload
                self.open.append(writer)
                self.most = max(self.most, len(self.open))
                if self._delay is not None and answers:
                    asyncio.get_running_loop().call_later(self._delay, self._answer_one, writer)
        self.connected -= 1
        writer.close()

    def _answer_one(self, writer: asyncio.StreamWriter) -> None:
        self.open.remove(writer)
        self._write(writer, "204 OK")

    @staticmethod
    def _write(writer: asyncio.StreamWriter, status: str) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())


def test_one_that_is_full_in_silence_is_asked_for_one_more_after_a_minute() -> None:
    scene = Scene()
    scene.window.fill(4, silent=True)
    scene.round()
    scene.clock.now += 29.0
    assert scene.round() == 4
    scene.clock.now += 29.0
    scene.round()
    scene.clock.now += 2.0
    assert scene.round() == 5


async def test_a_distant_receiver_gets_many_requests_at_once_by_default() -> None:
    """After 50 ms each: eight at a time were 160 events a second."""
    receiver = Receiver(0.05)
    async with receiver.running(), opened(f"http://127.0.0.1:{receiver.port}/") as publisher:
        found = await outcomes(publisher, [make_event("a", b"") for _ in range(3_500)])
    assert set(found) == {Acknowledged()}
    assert 2 * 8 < receiver.most <= DEFAULT_CEILING
    assert receiver.accepted <= DEFAULT_CEILING * 2


async def test_it_never_passes_the_ceiling() -> None:
    receiver = Receiver(0.01)
    async with (
        receiver.running(),
        opened(f"http://127.0.0.1:{receiver.port}/", connections_per_host=10) as publisher,
    ):
        await outcomes(publisher, [make_event("a", b"") for _ in range(300)])
    assert receiver.most <= 10


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Busy"])
async def test_one_that_refuses_gets_half_as_many_and_has_half_as_many_connections(status: str) -> None:
    receiver = Receiver(None)
    async with receiver.running(), opened(f"http://127.0.0.1:{receiver.port}/") as publisher:
        sink, events = Collector(), [make_event("a", b"") for _ in range(16)]
        await publisher.publish(events, sink)
        for number in (8, 4, 2, 1, 1):
            await eventually(lambda number=number: len(receiver.open) == number)  # type: ignore[misc]
            await eventually(lambda number=number: receiver.connected == number)  # type: ignore[misc]
            receiver.answer(status)
        assert all(isinstance(one, Transient) for one in await sink.outcomes(events))


async def test_one_that_takes_no_further_connection_gets_all_events_on_those_that_stand() -> None:
    receiver = Receiver(None)
    async with receiver.running(), opened(f"http://127.0.0.1:{receiver.port}/", connections_per_host=40) as publisher:
        sink, first = Collector(), make_event("a", b"")
        await publisher.publish([first], sink)
        await eventually(lambda: receiver.open)
        receiver.answer("204 OK")
        await sink.outcomes([first])
        receiver.refuse()
        receiver._delay = 0.0
        events = [make_event("a", b"", key=f"key {number % 20}") for number in range(300)]
        assert set(await outcomes(publisher, events)) == {Acknowledged()}
        assert receiver.accepted == 1


async def test_one_that_leaves_a_further_connection_unanswered_gets_no_more_of_them() -> None:
    """A server of ten processes, each of which serves one connection until its end."""
    receiver = Receiver(0.0, answering=10)
    async with receiver.running(), opened(f"http://127.0.0.1:{receiver.port}/") as publisher:
        sink, events = Collector(), [make_event("a", b"") for _ in range(20_000)]
        await publisher.publish(events, sink)
        await sink.until(lambda: len(sink.resolutions) == len(events) - 1)
        assert receiver.accepted == 11


async def test_a_server_of_few_processes_gets_no_more_requests_than_it_has() -> None:
    """Of each eight events four waited for a connection that was never served, and had failed an attempt then."""
    receiver = Receiver(0.0, answering=4)
    async with receiver.running(), opened(f"http://127.0.0.1:{receiver.port}/", timeout=0.5) as publisher:
        first = await outcomes(publisher, [make_event("a", b"") for _ in range(8)])
        assert sum(isinstance(one, TimedOut) for one in first) == 4
        for _ in range(3):
            assert set(await outcomes(publisher, [make_event("a", b"") for _ in range(8)])) == {Acknowledged()}


async def test_requests_that_stay_without_an_answer_on_connections_that_had_some_make_it_no_narrower() -> None:
    receiver = Receiver(0.0)
    async with receiver.running(), opened(f"http://127.0.0.1:{receiver.port}/", timeout=0.5) as publisher:
        await outcomes(publisher, [make_event("a", b"") for _ in range(8)])
        receiver._delay = None
        await outcomes(publisher, [make_event("a", b"") for _ in range(8)])
        assert publisher._host._window.size == 8
