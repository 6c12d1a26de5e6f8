"""What becomes a floor: a number, and the ground of all keys, once no transaction can bring a lower one."""

from __future__ import annotations

import json

import pytest

from relay.outbox.floors import KeyFloors, Snapshot
from tests.support.clock import Clock


class Server:
    """Stands for a connection."""


def known(floors: KeyFloors, key: int = 1) -> int | None:
    floor: int | None = json.loads(floors.of([key])).get(str(key))
    return floor


def floors_over(server: Server) -> tuple[KeyFloors, Clock]:
    clock = Clock()
    floors = KeyFloors(clock)
    assert floors.usable_over(server)
    return floors, clock


def test_a_place_becomes_the_floor_once_a_later_claim_saw_all_transactions_that_were_in_progress() -> None:
    floors, clock = floors_over(server := Server())
    floors.learn([(1, 10), (1, 11)], Snapshot(90, 100))
    clock.now = 1.0
    floors.learn([(1, 20)], Snapshot(100, 110))
    assert known(floors) is None
    floors.learn([(1, 20)], Snapshot(109, 115))
    assert known(floors) is None
    floors.learn([(1, 30)], Snapshot(110, 120))
    assert known(floors) == 10
    clock.now = 2.0
    floors.learn([(1, 40)], Snapshot(120, 130))
    floors.learn([(1, 50)], Snapshot(130, 140))
    assert known(floors) == 30
    assert floors.usable_over(server)


def test_the_transactions_to_wait_for_are_those_of_a_snapshot_in_which_each_that_drew_a_number_has_an_id() -> None:
    floors, clock = floors_over(_server := Server())
    floors.learn([(1, 10)], Snapshot(100, 100))
    clock.now = 0.1
    floors.learn([(1, 20)], Snapshot(101, 101))
    clock.now = 0.3
    floors.learn([(1, 30)], Snapshot(101, 103))  # 101 drew 9 before the first claim, and its id after it
    floors.learn([(1, 40)], Snapshot(101, 104))
    assert known(floors) is None
    floors.learn([(1, 50)], Snapshot(104, 104))
    assert known(floors) == 10


def test_the_ground_is_the_floor_of_every_key_once_all_transactions_of_its_number_have_ended() -> None:
    floors, clock = floors_over(_server := Server())
    assert not floors.wants_ground(None, Snapshot(90, 90))
    assert not floors.wants_ground(50, Snapshot(90, 100))
    clock.now = 1.0
    assert not floors.wants_ground(60, Snapshot(100, 110))
    assert not floors.wants_ground(60, Snapshot(109, 111))
    assert floors.wants_ground(60, Snapshot(110, 112))
    assert known(floors) is None
    floors.stand_on([(1, 7), (2, 70)])
    assert [known(floors, key) for key in (1, 2, 3)] == [7, 50, 50]
    assert not floors.wants_ground(60, Snapshot(113, 114)), "it is looked for once"
    floors.learn([(3, 40)], Snapshot(115, 116))
    assert known(floors, 3) == 50


def test_a_claim_that_fails_has_fewer_keys_without_a_floor_the_next_time() -> None:
    floors, _ = floors_over(_server := Server())
    floors.learn([(key, 10) for key in range(50)], Snapshot(90, 100))
    seen = []
    for ends in (floors.failed, floors.failed, floors.failed, floors.worked, floors.worked):
        seen.append(len(json.loads(floors.of(range(8)))))
        ends()
    assert [*seen, len(json.loads(floors.of(range(8))))] == [8, 4, 2, 1, 2, 4]


def test_the_ground_of_too_many_keys_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.outbox.floors.MOST_KEYS", 1)
    floors, clock = floors_over(_server := Server())
    for number in range(100, 103):
        wanted = floors.wants_ground(5, Snapshot(number, number))
        clock.now += 1.0
    assert wanted
    floors.stand_on([(1, 1), (2, 2)])
    assert known(floors) is None


def test_what_appears_below_a_place_takes_it_back() -> None:
    floors, clock = floors_over(_server := Server())
    for number in (10, 20, 30):
        clock.now += 1.0
        floors.learn([(1, number)], Snapshot(number, number))
    assert known(floors) == 10
    for number in (25, 31, 32):
        clock.now += 1.0
        floors.learn([(1, number)], Snapshot(number + 20, number + 20))
    assert known(floors) == 25
    floors.learn([(1, 5)], Snapshot(60, 60))
    assert known(floors) is None


def test_another_connection_or_a_server_that_was_put_back_knows_no_floors() -> None:
    floors, clock = floors_over(server := Server())
    for number in (10, 20, 30):
        clock.now += 1.0
        floors.learn([(1, number)], Snapshot(number, number))
    assert known(floors) == 10
    floors.index_is_there = False
    assert not floors.usable_over(server)
    other = Server()
    assert floors.usable_over(other)
    assert known(floors) is None
    for number in (10, 20, 30):
        clock.now += 1.0
        floors.learn([(1, number)], Snapshot(number, number))
    floors.learn([(2, 7)], Snapshot(15, 15))
    assert known(floors) is None


def test_the_keys_claimed_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.outbox.floors.MOST_KEYS", 2)
    floors, clock = floors_over(_server := Server())
    for number in (10, 20, 30):
        clock.now += 1.0
        floors.learn([(1, number), (2, number), (3, number)], Snapshot(number, number))
    assert [known(floors, key) for key in (1, 2, 3)] == [None, 10, 10]
