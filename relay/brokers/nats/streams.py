"""The streams of a NATS account: for ``relay-cli check`` and ``prune``, not for publishing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeVar

from nats.aio.client import Client
from nats.errors import Error
from nats.js.api import RetentionPolicy, StreamInfo

from relay.brokers.login import present
from relay.brokers.nats.client import NatsClient
from relay.brokers.nats.options import NatsOptions, connect_arguments, server_names
from relay.core.durations import in_words
from relay.core.errors import BrokerUnreachable, reason_of

T = TypeVar("T")
_ASKED_WITHIN: Final = 1.0  # seconds; a question that the login may not ask gets no answer


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, as far as publishing into it matters."""

    name: str
    subjects: tuple[str, ...]
    duplicate_window: float
    """Seconds for which a repeated ``Nats-Msg-Id`` is dropped."""
    wanted: tuple[str, ...] | None
    """What its consumers want, where it keeps that alone and acknowledges all; None: it keeps all, as far as known."""
    acknowledges: bool

    def takes(self, subject: str) -> bool:
        """Whether the stream stores what is published to ``subject``."""
        return any(subject_matches(pattern, subject) for pattern in self.subjects)

    def keeps(self, subject: str) -> bool:
        """Whether the stream keeps what is published to ``subject``."""
        return self.wanted is None or any(subject_matches(pattern, subject) for pattern in self.wanted)


def subject_matches(pattern: str, subject: str) -> bool:
    """NATS's own rule: ``*`` is one token, ``>`` is one or more at the end."""
    pattern_tokens, tokens = pattern.split("."), subject.split(".")
    for position, part in enumerate(pattern_tokens):
        if part == ">":
            return len(tokens) > position
        if position >= len(tokens) or part not in ("*", tokens[position]):
            return False
    return len(pattern_tokens) == len(tokens)


async def read_streams(options: NatsOptions) -> list[Stream]:
    """Return every stream of the account. Raises BrokerUnreachable, also when JetStream is off or not permitted."""

    async def ask(client: Client) -> list[Stream]:
        infos = await client.jetstream(timeout=options.connection_timeout).streams_info()
        wanted = await asyncio.gather(*(_wanted(client, info) for info in infos))
        return [
            Stream(
                info.config.name or "",
                tuple(info.config.subjects or ()),
                float(info.config.duplicate_window or 0),
                own,
                acknowledges=not info.config.no_ack,
            )
            for info, own in zip(infos, wanted, strict=True)
        ]

    return await _with_client(options, ask)


async def _wanted(client: Client, info: StreamInfo) -> tuple[str, ...] | None:
    """What the stream keeps alone, as its consumers want it; None: it keeps all, or the login may not ask."""
    if info.config.retention != RetentionPolicy.INTEREST:
        return None
    if not info.state.consumer_count:
        return ()
    try:
        consumers = await client.jetstream(timeout=_ASKED_WITHIN).consumers_info(info.config.name or "")
    except (Error, TimeoutError):
        return None
    filters = [(one.config.filter_subject, *(one.config.filter_subjects or ())) for one in consumers]
    wanted = [[subject for subject in subjects if subject] for subjects in filters]
    return tuple(chain(*wanted)) if all(wanted) and len(wanted) >= info.state.consumer_count else None


async def duplicate_window(options: NatsOptions) -> float:
    """The longest of all streams' windows, in seconds; 0 without a stream. Raises BrokerUnreachable."""
    return max((stream.duplicate_window for stream in await read_streams(options)), default=0.0)


async def _with_client(options: NatsOptions, ask: Callable[[Client], Awaitable[T]]) -> T:
    reasons: list[str] = []

    async def on_error(error: Exception) -> None:
        reasons.append(reason_of(error))

    client = NatsClient()
    try:
        async with asyncio.timeout(options.connection_timeout):
            await client.connect(
                **connect_arguments(await present(options)),
                error_cb=on_error,
                allow_reconnect=False,
                max_reconnect_attempts=1,  # of the first connection too
            )
            answer = await ask(client)
            await client.close()
            return answer
    except (Error, OSError, TimeoutError) as error:
        silence = f"no answer within {in_words(options.connection_timeout)}"
        reason = (reasons[-1] if reasons else silence) if isinstance(error, TimeoutError) else reason_of(error)
        raise BrokerUnreachable(f"{server_names(options)}: {reason}") from None
    finally:
        client.cut()
