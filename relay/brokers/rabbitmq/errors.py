"""The errors by which RabbitMQ closes a channel, sorted into the outcomes of docs/reference/messages.md#errors.

The server closes the channel for the sake of one message, and does not say which. Its text tells it: all messages of a
channel go to one exchange, so an exchange that is missing or forbidden refuses each of them; a topic permission names
the routing key, or the beginning of a long one, since the text has 255 bytes at most; a message that is too large is
known by its size.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, Permanent, Transient

NACK: Final = Transient("NACK", "a queue refused the message: it is full (x-overflow), or cannot store now")
_REFUSED, _NOT_FOUND, _PRECONDITION = 403, 404, 406
_TOPIC: Final = re.compile(r"access to topic '(?P<rest>.*)", re.DOTALL)
_BEHIND_TOPIC: Final = "' in exchange "
_CUT: Final = "..."  # how a text ends that the server has cut
_SIZE: Final = re.compile(r"message size (?P<size>\d+) is larger than (?:configured )?max size (?P<most>\d+)")


class Blame(NamedTuple):
    """What a channel was closed for: which of its events are refused, and how."""

    refuses: Callable[[OutboxEvent], bool]
    outcome: Outcome
    max_size: int | None = None
    """Bytes of payload that the server takes, where it says so."""
    certain: bool = True
    """False where events of several types match, and the text is about one of them."""


def _payload_size(event: OutboxEvent) -> int:
    return len(event.payload)


def blame(code: int, text: str, body_size: Callable[[OutboxEvent], int] = _payload_size) -> Blame | None:
    """Return what the server's text says; None where it does not say which messages it is about.

    ``body_size`` is the number of bytes that the message of an event has.
    """
    if code == _NOT_FOUND:
        return Blame(lambda _: True, Transient("NOT_FOUND", text))
    if code == _REFUSED:
        outcome, topic = Transient("ACCESS_REFUSED", text), _TOPIC.search(text)
        if topic is None:
            return Blame(lambda _: True, outcome)
        key, behind, _ = topic["rest"].rpartition(_BEHIND_TOPIC)
        if behind:
            return Blame(lambda event: event.event_type == key, outcome)
        beginning = topic["rest"].removesuffix(_CUT)
        return Blame(lambda event: f"{event.event_type}{_BEHIND_TOPIC}".startswith(beginning), outcome, certain=False)
    if code == _PRECONDITION and (match := _SIZE.search(text)) is not None:
        most = int(match["most"])
        return Blame(lambda event: body_size(event) > most, too_large(int(match["size"]), most), most)
    return None


def too_large(size: int, most: int) -> Permanent:
    """The outcome of a payload over the server's ``max_message_size``."""
    return Permanent("MAX_MESSAGE_SIZE", f"{size} bytes, over the server's max_message_size of {most}")
