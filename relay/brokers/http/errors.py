"""What a request may come to, and its outcome by docs/reference/messages.md#errors.

Permanent are the statuses that no later attempt can change: an endpoint that is gone for good, a request that is too
large. Every other one is transient, since a deployment at the receiver may answer anything for a minute; an operator
who knows better lists more (HTTP_PERMANENT_STATUSES). Redirects are not followed: the signature and the payload would
go to an address that no operator wrote down.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, NamedTuple

from relay.core.errors import OutboxError
from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, Transient

_PERMANENT: Final = frozenset({410, 413, 414, 431})
_EXCERPT: Final = 200  # characters of the answer's body that an error shows
_LONGEST_DELAY: Final = 100  # characters of a Retry-After
_SECONDS: Final = re.compile(r"\d{1,9}")


class Answer(NamedTuple):
    """A response, as far as it matters."""

    status: int
    retry_after: str | None
    body: bytes
    """The beginning of it."""


class Cut(OutboxError):
    """The connection was lost before the answer. ``resend``: the server may have closed it before the request came."""

    def __init__(self, reason: str, *, resend: bool) -> None:
        super().__init__(reason)
        self.resend = resend


class NoAnswer(OutboxError):
    """No answer in time."""


class BadAnswer(OutboxError):
    """What came is no answer by the protocol, or the server has reset the request alone."""


def outcome_of(
    answer: Answer, receiver: str, permanent: frozenset[int] = frozenset(), mask: Callable[[str], str] = str
) -> Outcome:
    """The outcome for a status; ``receiver`` names the receiver, ``permanent`` are more statuses that end an event.

    ``mask`` takes the request's secrets out of the answer, which may repeat it.
    """
    status = answer.status
    if 200 <= status < 300:
        return ACKNOWLEDGED
    code, reason = (
        f"HTTP_{status}",
        f"{receiver}: {_phrase(status)}{_excerpt(mask(answer.body.decode('utf-8', 'replace')))}",
    )
    if 300 <= status < 400:
        return Transient(code, f"{reason}; redirects are not followed: correct the URL")
    if status in _PERMANENT or status in permanent:
        return Permanent(code, reason)
    return Transient(code, reason, retry_delay(answer.retry_after, time.time()))


def retry_delay(value: str | None, now: float) -> float | None:
    """The seconds of a Retry-After header, which holds seconds or a date; None for anything else. ``now`` is UTC."""
    if value is None or len(value) > _LONGEST_DELAY:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"status {status}"


def _excerpt(body: str) -> str:
    text = " ".join(body.split())
    return f" ({text[:_EXCERPT]!r})" if text else ""
