"""Statuses and Retry-After."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from relay.brokers.http.errors import Answer, outcome_of, retry_delay
from relay.core.outcome import Acknowledged, Permanent, Transient

PLACE = "https://hooks.example.com"


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_success_is_an_acknowledgement(status: int) -> None:
    assert outcome_of(Answer(status, None, b"body"), PLACE) == Acknowledged()


@pytest.mark.parametrize(("status", "listed"), [(410, ()), (413, ()), (414, ()), (431, (400,)), (400, (400, 422))])
def test_what_no_attempt_can_change_and_what_an_operator_lists_is_permanent(
    status: int, listed: tuple[int, ...]
) -> None:
    outcome = outcome_of(Answer(status, "5", b""), PLACE, frozenset(listed))
    assert isinstance(outcome, Permanent)
    assert outcome.code == f"HTTP_{status}"


@pytest.mark.parametrize(
    "status", [*range(400, 410), 411, 415, *range(421, 430), 451, 499, 500, 502, 503, 504, 599, 600, 301, 302, 307, 308]
)
def test_what_may_work_later_is_transient(status: int) -> None:
    outcome = outcome_of(Answer(status, None, b""), PLACE)
    assert isinstance(outcome, Transient)
    assert outcome.code == f"HTTP_{status}"


def test_the_reason_shows_where_what_and_the_beginning_of_the_body() -> None:
    outcome = outcome_of(Answer(503, "7", b"no\r\n room " + b"x" * 999), PLACE)
    assert isinstance(outcome, Transient)
    assert outcome.reason == f"{PLACE}: Service Unavailable ({'no room ' + 'x' * 192!r})"
    assert outcome.not_before == 7.0


def test_a_redirect_is_not_followed_and_says_so() -> None:
    outcome = outcome_of(Answer(308, None, b""), PLACE)
    assert outcome == Transient("HTTP_308", f"{PLACE}: Permanent Redirect; redirects are not followed: correct the URL")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), ("0", 0.0), (" 120 ", 120.0), ("-1", None), ("soon", None), ("1.5", None), ("9" * 400, None)],
)
def test_retry_after_in_seconds(value: str | None, seconds: float | None) -> None:
    assert retry_delay(value, time.time()) == seconds


@pytest.mark.parametrize(("offset", "seconds"), [(90, 90.0), (-90, 0.0)])
def test_retry_after_as_a_date(offset: int, seconds: float) -> None:
    now = 1_790_000_000
    assert retry_delay(formatdate(now + offset, usegmt=True), now) == seconds
