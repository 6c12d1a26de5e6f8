"""Cookies of logins: what opens one, what ends one, and which CSRF tokens belong to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.console.access import logins as module
from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.logins import Login, Logins, SealedNotes, Way
from tests.support.clock import Clock

SECRET = b"k" * 32
ADMIN = Identity("ada", AccessRole.ADMIN)


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


def keeper(clock: Clock, secret: bytes = SECRET) -> Logins:
    return Logins(secret, 100.0, clock)


def test_a_cookie_brings_its_login_back(clock: Clock) -> None:
    logins = keeper(clock)
    login = logins.new(ADMIN, Way.TOKEN, "mark")

    assert logins.open(logins.seal(login)) == login
    assert keeper(clock).open(logins.seal(login)) == login, "a console with the same secret reads it"
    assert logins.open(logins.seal(logins.new())) is not None


def test_every_login_has_an_id_of_its_own(clock: Clock) -> None:
    logins = keeper(clock)

    assert len({logins.new(ADMIN, Way.TOKEN).id for _ in range(100)}) == 100


@given(st.integers(0, 400), st.characters(codec="ascii"))
def test_a_changed_cookie_opens_nothing(position: int, letter: str) -> None:
    logins = keeper(Clock(1_000_000.0))
    login = logins.new(Identity("reader", AccessRole.READER), Way.TOKEN, "mark")
    value = logins.seal(login)
    at = position % len(value)
    forged = value[:at] + letter + value[at + 1 :]

    # The last letter of base64 holds bits that do not count.
    assert forged == value or logins.open(forged) in (None, login)
    assert logins.open(value[:at]) is None


@pytest.mark.parametrize("value", ["", ".", "x" * 5000, "W10.x", "\x00", "ü"])
def test_what_is_no_cookie_opens_nothing(clock: Clock, value: str) -> None:
    assert keeper(clock).open(value) is None


def test_another_secret_or_purpose_opens_nothing(clock: Clock) -> None:
    logins = keeper(clock)
    value = logins.seal(logins.new(ADMIN, Way.TOKEN))

    assert keeper(clock, b"o" * 32).open(value) is None
    assert SealedNotes(SECRET, "provider", 100.0, clock).open(value, 5) is None
    assert logins.open(SealedNotes(SECRET, "provider", 100.0, clock).seal("a", "b", "c", "d", "e")) is None


@pytest.mark.parametrize("content", [[], {}, 1, ["id", 1, "n", 9, "token", ""], ["id", "x", None, None, "none", ""]])
def test_a_signed_cookie_of_another_shape_opens_nothing(clock: Clock, content: Any) -> None:
    logins = keeper(clock)

    assert logins.open(str(logins._signing.signer().dumps(content))) is None


def test_a_login_ends_with_its_lifetime(clock: Clock) -> None:
    logins = keeper(clock)
    value = logins.seal(logins.new(ADMIN, Way.TOKEN))

    clock.now += 100
    assert logins.open(value) is not None
    clock.now += 0.1
    assert logins.open(value) is None


def test_an_ended_login_opens_nothing_more_and_others_do(clock: Clock) -> None:
    logins = keeper(clock)
    first, second = logins.new(ADMIN, Way.TOKEN), logins.new(ADMIN, Way.TOKEN)

    logins.end(first)

    assert not logins.lives(first)
    assert logins.open(logins.seal(first)) is None
    assert logins.lives(second)


def test_all_logins_of_one_name_and_way_end_together(clock: Clock) -> None:
    logins = keeper(clock)
    one, other = logins.new(ADMIN, Way.TOKEN), logins.new(ADMIN, Way.TOKEN)
    same_name, same_way = logins.new(ADMIN, Way.PROVIDER), logins.new(Identity("bob", AccessRole.ADMIN), Way.TOKEN)

    clock.now += 1
    logins.end_all_of(one)
    clock.now += 0.01
    later = logins.new(ADMIN, Way.TOKEN)

    assert [logins.lives(login) for login in (one, other)] == [False, False]
    assert [logins.lives(login) for login in (same_name, same_way, later)] == [True, True, True]


def test_what_has_been_ended_is_bounded_and_never_lives_again(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 10)
    logins = keeper(clock)
    ended: list[Login] = []
    for _ in range(50):
        clock.now += 0.1
        ended.append(logins.new(ADMIN, Way.TOKEN))
        logins.end(ended[-1])
        assert len(logins._ended) <= 10
        assert not any(logins.lives(login) for login in ended)
    clock.now += 0.1
    assert logins.lives(logins.new(ADMIN, Way.TOKEN))


def test_what_has_expired_is_forgotten(clock: Clock) -> None:
    logins = keeper(clock)
    for _ in range(3):
        logins.end_all_of(logins.new(ADMIN, Way.TOKEN))
    clock.now += 101
    logins.end(logins.new())

    assert len(logins._ended) == 1
    assert logins._ended_names == {}


def test_a_csrf_token_belongs_to_one_login(clock: Clock) -> None:
    logins = keeper(clock)
    login, other = logins.new(ADMIN, Way.TOKEN), logins.new(ADMIN, Way.TOKEN)
    token = logins.csrf_token(login)

    assert logins.csrf_matches(login, token)
    assert not logins.csrf_matches(other, token)
    assert not keeper(clock, b"o" * 32).csrf_matches(login, token)
    assert token != logins.csrf_token(login), "a page that is compressed with what a visitor chose gives none away"


@pytest.mark.parametrize("token", ["", "x", "====", "A" * 64, "ü", "AAAA"])
def test_any_other_text_is_no_csrf_token(clock: Clock, token: str) -> None:
    logins = keeper(clock)

    assert not logins.csrf_matches(logins.new(), token)


def test_notes_come_back_within_their_lifetime(clock: Clock) -> None:
    notes = SealedNotes(SECRET, "provider", 100.0, clock)
    value = notes.seal("state", "nonce")

    assert notes.open(value, 2) == ["state", "nonce"]
    assert notes.open(value, 3) is None
    assert notes.open(value[:-2], 2) is None
    clock.now += 101
    assert notes.open(value, 2) is None
