"""What has arrived is read without asking the event loop, and other tasks get their turn."""

from __future__ import annotations

import socket
from collections.abc import Generator

import pytest
from psycopg.waiting import READY_R, WAIT_R, WAIT_RW

from relay.postgres.read_ahead import MOST_IN_A_ROW, read_on


def reads(peer: socket.socket, wanted: int, first: int = WAIT_R) -> Generator[int, int, int]:
    """Like psycopg's: waits, reads a byte, and ends after ``wanted`` of them."""
    state = first
    for _ in range(wanted):
        ready = yield state
        assert ready == READY_R
        assert peer.recv(1)
        state = WAIT_R
    return wanted


@pytest.fixture
def pair() -> Generator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def drive(waits: Generator[int, int, int]) -> tuple[list[int], int]:
    """What it waits for when each wait ends at once, and its result."""
    states = [next(waits)]
    while True:
        try:
            states.append(waits.send(READY_R))
        except StopIteration as end:
            return states, end.value


def test_what_has_arrived_needs_no_wait(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.send(b"x" * 3)
    with pytest.raises(StopIteration) as end:
        next(read_on(reads(ours, 3), ours.fileno()))
    assert end.value.value == 3


def test_what_has_not_arrived_is_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    waits = read_on(reads(ours, 2), ours.fileno())
    assert next(waits) == WAIT_R
    theirs.send(b"xx")
    with pytest.raises(StopIteration):
        waits.send(READY_R)


def test_other_tasks_get_their_turn_during_a_long_reply(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    wanted = 3 * (MOST_IN_A_ROW + 1)
    theirs.send(b"x" * wanted)
    states, result = drive(read_on(reads(ours, wanted), ours.fileno()))
    assert (states, result) == ([WAIT_R] * 3, wanted)


def test_a_wait_to_send_is_left_to_psycopg(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.send(b"xx")
    assert drive(read_on(reads(ours, 2, WAIT_RW), ours.fileno()))[0] == [WAIT_RW]
