"""The outcome of each error of Redis and its client."""

from __future__ import annotations

import pytest
from redis import exceptions

from relay.brokers.redis.errors import TABLE, classify
from relay.core.outcome import Outcome, TimedOut, Transient, Unreachable


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (exceptions.OutOfMemoryError("used memory"), Transient("OOM", "used memory")),
        (exceptions.NoPermissionError("no"), Transient("NOPERM", "no")),
        (exceptions.ReadOnlyError("replica"), Unreachable("READONLY: replica")),
        (exceptions.MasterDownError("no primary"), Unreachable("MASTERDOWN: no primary")),
        (exceptions.TryAgainError("resharding"), Unreachable("TRYAGAIN: resharding")),
        (exceptions.ClusterDownError("The cluster is down"), Unreachable("CLUSTERDOWN: The cluster is down")),
        (exceptions.ClusterDownError("Hash slot not served"), Transient("CLUSTERDOWN", "Hash slot not served")),
        (exceptions.MovedError("1 127.0.0.1:7000"), Transient("MOVED", "1 127.0.0.1:7000")),
        (exceptions.ResponseError("WRONGTYPE Operation against"), Transient("WRONGTYPE", "Operation against")),
        (exceptions.ResponseError("NOREPLICAS Not enough"), Transient("NOREPLICAS", "Not enough")),
        (exceptions.ResponseError("MISCONF Errors writing"), Transient("MISCONF", "Errors writing")),
        (exceptions.ResponseError("something new"), Transient("ResponseError", "something new")),
        (exceptions.TimeoutError("slow"), TimedOut("TIMEOUT", "slow")),
        (exceptions.ConnectionError("gone"), Unreachable("CONNECTION: gone")),
        (exceptions.BusyLoadingError("loading"), Unreachable("LOADING: loading")),
        (ConnectionResetError("reset"), Unreachable("CONNECTION: reset")),
    ],
)
def test_errors(error: Exception, outcome: Outcome) -> None:
    assert classify(error) == outcome


ERRORS = [kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_library_has_an_outcome(kind: type[Exception]) -> None:
    # Some of them want arguments, and print them.
    error = type(kind.__name__, (kind,), {"__init__": lambda _: None, "__str__": lambda _: "text"})()
    expected = next((TABLE[base][1] for base in kind.__mro__ if base in TABLE), Transient)
    assert type(classify(error)) is expected
