"""JetStream's and nats-py's errors, as outcomes (docs/reference/messages.md#errors), and rules for subjects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

from nats import errors

from relay.core.allowed import refused_name
from relay.core.outcome import Outcome, Permanent, TimedOut, Transient, Unreachable

Kind = type[Permanent] | type[Transient] | type[TimedOut] | type[Unreachable]

PERMANENT_REPLIES = frozenset(
    {
        10054,  # the message exceeds the stream's max_msg_size
        10097,  # the header block exceeds JetStream's 64 KiB
        # Everything else is transient: 10077 (the store failed; a full stream that discards new messages says so
        # too), 10047, 10028, 10023 (out of storage, memory, other resources), 10008, 10009 (no leader), 10039, 10076
        # (JetStream is off), 10109 (a sealed stream), 10167 (too many requests), and whatever is new.
    }
)
"""The ``err_code`` of a negative acknowledgement that no later attempt can change."""

EXCEPTIONS: MappingProxyType[type[Exception], Kind] = MappingProxyType(
    {
        errors.MaxPayloadError: Permanent,
        errors.BadSubjectError: Permanent,
        errors.TimeoutError: TimedOut,
        errors.FlushTimeoutError: TimedOut,
        errors.ConnectionClosedError: Unreachable,
        errors.ConnectionDrainingError: Unreachable,
        errors.ConnectionReconnectingError: Unreachable,
        errors.OutboundBufferLimitError: Unreachable,  # not connected, and the relay does not buffer
        errors.StaleConnectionError: Unreachable,
        errors.UnexpectedEOF: Unreachable,
        errors.NoServersError: Unreachable,
        errors.AuthorizationError: Unreachable,
        errors.SecureConnRequiredError: Unreachable,
        errors.SecureConnWantedError: Unreachable,
        OSError: Unreachable,
        # Everything else is transient.
    }
)
"""The kind of outcome by the exception that publishing raised."""

NO_STREAM = Transient("NO_STREAM", "no JetStream stream takes this subject")
"""The server's status 503: no subscriber. A stream may be created later."""

PERMISSIONS_CODE = "PERMISSIONS_VIOLATION"

STEERING = ("_INBOX.", "$KV.", "$O.", "$SRV.", "$MQTT.", "$JS.", "$SYS.")
"""How subjects begin that are replies, buckets of keys and objects, services, MQTT's and the server's own."""

_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f]")


def classify_reply(err_code: int, description: str) -> Outcome:
    """The outcome of a negative acknowledgement."""
    return (Permanent if err_code in PERMANENT_REPLIES else Transient)(f"JETSTREAM_{err_code}", description)


def classify_exception(error: Exception) -> Outcome:
    """The outcome of a message that the library refused, by the most specific class in the table."""
    kind = next((EXCEPTIONS[base] for base in type(error).__mro__ if base in EXCEPTIONS), Transient)
    name, text = type(error).__name__, str(error)
    return Unreachable(f"{name}: {text}") if kind is Unreachable else kind(name, text)  # type: ignore[call-arg]


def invalid_subject(subject: str, allowed: Sequence[str] = ()) -> Permanent | None:
    """Why no message is published to this subject; None when one may be. ``allowed``: ALLOWED_EVENT_TYPES."""
    tokens = subject.split(".")
    if not subject:
        reason = "a subject must not be empty"
    elif _BLANK_OR_CONTROL.search(subject):
        reason = f"a subject must not contain blanks or control characters: {subject!r}"
    elif "" in tokens:
        reason = f"a subject must not begin or end with a dot, or contain two in a row: {subject!r}"
    elif "*" in tokens or ">" in tokens:
        reason = f"a subject to publish to must not contain a wildcard: {subject!r}"
    elif (refused := refused_name(subject, STEERING, allowed)) is not None:
        return refused
    elif tokens[0] in ("$JS", "$SYS"):
        reason = f"the server answers {subject!r} itself"
    else:
        return None
    return Permanent("BAD_SUBJECT", reason)
