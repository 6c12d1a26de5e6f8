"""The streams that events go to, and how long each knows a repeated event: for ``relay-cli check``."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from functools import partial

from relay.brokers.findings import all_exist, without_refused
from relay.brokers.kinds import CheckContext, listed
from relay.brokers.nats.errors import invalid_subject
from relay.brokers.nats.options import NatsOptions
from relay.brokers.nats.streams import Stream, read_streams
from relay.core.durations import format_duration
from relay.core.finding import Finding, Level


async def check(options: NatsOptions, names: Sequence[str] | None, context: CheckContext) -> list[Finding]:
    """Look for the stream of each subject. Raises BrokerUnreachable."""
    if names is None:
        return []
    names, refused = without_refused(names, partial(invalid_subject, allowed=options.allowed_types))
    streams = await read_streams(options)
    stream_of = {name: next((stream for stream in streams if stream.takes(name)), None) for name in names}
    findings = [
        Finding(Level.ERROR, "streams", f"no stream takes the subject {name!r}", _add_stream(name))
        for name, stream in stream_of.items()
        if stream is None
    ] or [all_exist("streams", "stream", names, context.sample)]
    used = {one.name: one for one in (stream_of.values() if names else streams) if one is not None}
    findings += [_window(stream, context) for stream in used.values()]
    taken = {stream: [name for name in names if stream_of[name] is stream] for stream in used.values()}
    return refused + findings + [finding for stream, own in taken.items() for finding in _keeping(stream, own)]


def _add_stream(subject: str) -> str:
    return (
        f"create one, nats stream add EVENTS --subjects {shlex.quote(subject)} --defaults, or add the subject to one; "
        "until then its events are retried and become dead letters"
    )


def _keeping(stream: Stream, names: Sequence[str]) -> Iterator[Finding]:
    """Whether the stream keeps what it acknowledges, and acknowledges what it keeps; ``names`` go to it."""
    unwanted = [name for name in names if not stream.keeps(name)]
    if unwanted or stream.wanted == ():
        without = f" that wants {listed([repr(name) for name in unwanted])}" if stream.wanted else ""
        message = (
            f"stream {stream.name} acknowledges events and keeps none: its retention is interest, without a consumer"
            f"{without}"
        )
        advice = f"add a consumer, or make it another stream: nats stream edit {stream.name} --retention limits"
        yield Finding(Level.WARNING, "streams", message, advice)
    if not stream.acknowledges:
        message = f"stream {stream.name} keeps events and acknowledges none (no_ack): each is sent until it is DEAD"
        yield Finding(Level.ERROR, "streams", message, f"nats stream edit {stream.name} --ack")


def _window(stream: Stream, context: CheckContext) -> Finding:
    """Compare the stream's duplicate window with the time after which an event may be sent again."""
    window, needed = stream.duplicate_window, math.ceil(context.repeated_within)
    if window < needed:
        forgotten = f"forgets an event's id after {format_duration(window)}, before a crash of its relay is made good"
        enough = format_duration(needed)
        advice = f"make that {enough} or more: nats stream edit {stream.name} --dupe-window {enough}"
        return Finding(Level.WARNING, "duplicates", f"stream {stream.name} {forgotten}", advice)
    message = f"stream {stream.name} recognizes a repeated event for {format_duration(window)}"
    late = context.retry_max_delay > window
    return Finding(Level.OK, "duplicates", f"{message}; a later retry may arrive twice" if late else message)
