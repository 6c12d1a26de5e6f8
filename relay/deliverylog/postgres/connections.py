"""The PostgreSQL driver's connections: a pool with deadlines, whose errors are the log's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from relay.core.errors import StorageBusy, StorageError, StorageTimeout, StorageUnavailable
from relay.deliverylog.errors import DeliveryLogBusy, DeliveryLogError, DeliveryLogUnavailable
from relay.deliverylog.limits import LONGEST_PAGE, too_slow
from relay.postgres.codec import DOCUMENTS
from relay.postgres.connect import Work
from relay.postgres.deadline_pool import DeadlinePool
from relay.postgres.errors import classify
from relay.postgres.url import ConnectionParameters

Result = TypeVar("Result")

# Seconds, both.
_LONGEST_WAIT = 10.0  # for a connection that other callers use
_DEADLINE = 30.0  # of a statement that does not read
_DECODED_AT_ONCE = 100  # rows
_MIGRATE = (
    "run relay-cli log migrate, or where the tables exist: GRANT openoutbox_log_recorder TO this user, and to one that "
    "only reads openoutbox_log_reader (relay-cli check --for deliverylog names each right)"
)
_NO_ANSWER = "the delivery log's database does not answer"
_REFUSED = "the delivery log's database refuses the login"
_LOGIN = ("authentication failed", "no password supplied", "pg_hba.conf", "not permitted to log in", 'role "')
"""Words of libpq about a refused login, for which it has no SQLSTATE."""
_KINDS: Mapping[type[StorageError], type[DeliveryLogError]] = {
    StorageUnavailable: DeliveryLogUnavailable,
    StorageBusy: DeliveryLogBusy,
}


class LogConnections:
    """Up to ``size`` connections, made on demand; each method raises the log's errors."""

    def __init__(self, parameters: ConnectionParameters, size: int) -> None:
        self._pool = DeadlinePool(
            parameters,
            size=size,
            deadline=_DEADLINE,
            longest_wait=_LONGEST_WAIT,
            adapters=DOCUMENTS,
            schema_hint=_MIGRATE,
        )

    @property
    def connected(self) -> int:
        """Number of open connections."""
        return self._pool.connected

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    async def read(self, work: Work[Result], deadline: float = LONGEST_PAGE) -> Result:
        """Run a query. Raises ResourceLimit when the server answers and the query takes longer than ``deadline``."""
        return await self.run("reading the delivery log", work, deadline, overdue=too_slow(deadline))

    async def run(
        self,
        doing: str,
        work: Work[Result],
        deadline: float | None = None,
        overdue: DeliveryLogError | None = None,
    ) -> Result:
        """Await ``work`` with a connection of the pool; raises the log's errors.

        A statement that the server cancelled at its deadline raises ``overdue``, and DeliveryLogBusy without one.
        """
        try:
            return await self._pool.run(doing, work, deadline)
        except StorageTimeout as error:
            if not error.server_answers:
                raise _unavailable(error) from error
            raise overdue or DeliveryLogBusy(str(error)) from error
        except StorageError as error:
            raise _of_storage(error) from error


@contextmanager
def translating() -> Iterator[None]:
    """Raise the driver's errors as the log's own."""
    try:
        yield
    except psycopg.Error as error:
        raise _of_storage(classify(error, "the delivery log's database", schema_hint=_MIGRATE)) from error


def _of_storage(error: StorageError) -> DeliveryLogError:
    """The log's error for the project's."""
    if error.sqlstate is None and isinstance(error, StorageUnavailable):
        return _unavailable(error)
    kind = next((own for kind, own in _KINDS.items() if isinstance(error, kind)), DeliveryLogError)
    translated = kind(str(error))
    translated.refusal = error if error.may_blame_row else None
    return translated


def _unavailable(error: StorageUnavailable) -> DeliveryLogUnavailable:
    """The reason stays out of the message, which the HTTP API shows: it may name hosts."""
    refused = any(word in str(error).lower() for word in _LOGIN)
    unavailable = DeliveryLogUnavailable(_REFUSED if refused else _NO_ANSWER)
    unavailable.reason, unavailable.advice = str(error), error.advice
    return unavailable


async def fetched(cursor: psycopg.AsyncCursor[tuple[Any, ...]]) -> list[Sequence[Any]]:
    """All rows, decoded in portions: other threads, such as those that serve requests, run between two of them."""
    listed: list[Sequence[Any]] = []
    while portion := await cursor.fetchmany(_DECODED_AT_ONCE):
        listed += portion
    return listed
