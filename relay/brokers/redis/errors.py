"""Redis' error replies and redis-py's errors, sorted into the outcomes of docs/reference/messages.md#errors."""

from __future__ import annotations

from types import MappingProxyType

from redis import exceptions

from relay.brokers.tls import handshake_refused
from relay.core.errors import BrokerRefused, BrokerUnreachable, reason_of
from relay.core.outcome import ConnectionCut, Outcome, Permanent, TimedOut, Transient, Unreachable

Kind = type[Permanent] | type[Transient] | type[TimedOut] | type[Unreachable]

TABLE: MappingProxyType[type[Exception], tuple[str, Kind]] = MappingProxyType(
    {
        # No answer in time; the engine probes.
        exceptions.TimeoutError: ("TIMEOUT", TimedOut),
        TimeoutError: ("TIMEOUT", TimedOut),
        # No connection, a refused login, or a server that is not ready.
        exceptions.ConnectionError: ("CONNECTION", Unreachable),
        exceptions.AuthenticationError: ("NOAUTH", Unreachable),
        exceptions.AuthorizationError: ("NOAUTH", Unreachable),
        exceptions.AuthenticationWrongNumberOfArgsError: ("NOAUTH", Unreachable),
        exceptions.BusyLoadingError: ("LOADING", Unreachable),  # it reads its data from disk
        exceptions.InvalidResponse: ("PROTOCOL", Unreachable),
        OSError: ("CONNECTION", Unreachable),
        # The server answers and takes no writes; the next session may find the one that does.
        exceptions.ReadOnlyError: ("READONLY", Unreachable),  # a replica; its primary is elsewhere now
        exceptions.MasterDownError: ("MASTERDOWN", Unreachable),  # a replica without its primary
        exceptions.ClusterDownError: ("CLUSTERDOWN", Unreachable),  # but for a single slot, see ``classify``
        exceptions.TryAgainError: ("TRYAGAIN", Unreachable),  # a slot is on its way to another node
        # An operator can correct these, or time does. redis-py removes the code from the text of the errors it knows.
        exceptions.OutOfMemoryError: ("OOM", Transient),  # the memory is full
        exceptions.NoPermissionError: ("NOPERM", Transient),  # the ACL forbids XADD or this key
        exceptions.MovedError: ("MOVED", Transient),  # followed; an outcome only after too many redirects
        exceptions.AskError: ("ASK", Transient),
        # Everything else is transient, under the code that its reply begins with: WRONGTYPE (an operator can delete
        # the key), MISCONF (snapshots fail), NOREPLICAS (too few of them), and whatever is new.
    }
)

REPLIES = (exceptions.ResponseError, exceptions.BusyLoadingError, exceptions.AuthenticationError)
"""Errors that are the reply to one command: the connection can still be used."""


def classify(error: Exception) -> Outcome:
    """The outcome of a message that failed with this error, by the most specific class in the table."""
    code, kind = next((TABLE[base] for base in type(error).__mro__ if base in TABLE), ("", Transient))
    text = str(error) or type(error).__name__
    if code == "NOAUTH" and "invalid" in text.lower():
        code = "WRONGPASS"  # redis-py makes one class of both, and removes the code
    if code == "PROTOCOL":
        text = f"the server that answers is not a Redis server ({text})"
    if code == "CLUSTERDOWN" and "slot not served" in text.lower():
        return Transient(code, text)  # the other slots take writes; an operator can assign this one
    if kind is Unreachable:
        return Unreachable(f"{code}: {text}")
    if code:
        return kind(code, text)  # type: ignore[call-arg]
    first, _, rest = text.partition(" ")
    if first == "UNBLOCKED":  # a WAIT on a server that has become a replica
        return Unreachable(text)
    return Transient(first, rest) if first.isupper() else Transient(type(error).__name__, text)


def classify_loss(error: Exception) -> Outcome:
    """The outcome of what is unanswered on a session that ended with this error: a lost connection is a cut."""
    outcome = classify(error)
    return ConnectionCut(outcome.reason) if isinstance(outcome, Unreachable) else outcome


def unreachable(error: Exception) -> str | None:
    """Why an error of ``ping`` or ``connect`` means that Redis cannot be used; None when it answered anyway."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, exceptions.ConnectionError) and isinstance(cause, OSError):
        return f"CONNECTION: {reason_of(cause)}"  # redis-py puts the address and Python's tuple around it
    outcome = classify(error)
    if isinstance(outcome, Unreachable):
        return outcome.reason
    return None if isinstance(error, REPLIES) else str(error)


def kind_of(error: Exception) -> type[BrokerUnreachable]:
    """What an error of ``ping`` or ``connect`` is, where Redis cannot be used."""
    refused = isinstance(error, exceptions.AuthenticationError) or handshake_refused(error)
    return BrokerRefused if refused else BrokerUnreachable
