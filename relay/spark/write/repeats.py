"""Whether events that are in the outbox already are those of this write: type, and a digest of the payload.

The function ``openoutbox_same`` of ``migrate --with sql-api`` compares, with its owner's rights: a writer may not read.
Where it is missing, or this role may not call it, repeats are not compared, and the driver's log says so.
"""

from __future__ import annotations

import logging

from relay.core.errors import EventError
from relay.postgres.connect import SyncConnection
from relay.spark.setup import may_compare
from relay.spark.statements import SparkStatements

_log = logging.getLogger(__name__)


def check_repeats(
    connection: SyncConnection, statements: SparkStatements, path: str, stage: str = "", **values: object
) -> bool:
    """Whether all rows of the statement ``path`` were compared. Raises EventError where another event has the id."""
    if not may_compare(connection, statements):
        return False
    query = statements.query(path, stage)
    others = connection.execute(query, values or None).fetchall()
    taken = [event_id for event_id, same in others if same is False]
    if taken:
        raise EventError(
            f"event_id: {', '.join(taken)} is in table {statements.outbox} with another type or payload; "
            "give each event a key of its own, or leave those out that were written before"
        )
    return not others


def warn_unchecked(statements: SparkStatements, run: object, rows: int) -> None:
    """Say that a write's repeats were not compared."""
    if rows:
        _log.warning(
            "run %s: unchecked: %d events are in %s already, maybe with other content. To have them compared: "
            "relay-cli migrate --with sql-api, and as its owner relay-cli spark setup --role for this role",
            run,
            rows,
            statements.outbox,
        )
