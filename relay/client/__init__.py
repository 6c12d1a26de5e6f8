"""What an application imports: announce events in the transaction that changes its data.

    from relay.client import NewEvent, enqueue

    with psycopg.connect(url) as connection:  # one transaction
        connection.execute("INSERT INTO users ...")
        enqueue(connection, NewEvent("user.signup", {"id": 42}, partition_key="42"))

A consumer has ``relay.client.inbox``, the other half: each event's effect once. Importing either loads the standard
library only; psycopg, asyncpg, SQLAlchemy and Django are looked for when a connection of theirs is handed in.
"""

from relay.client.enqueue import Enqueued, enqueue, enqueue_async
from relay.client.event import NewEvent, Payload
from relay.client.identity import uuid7
from relay.client.insert import InsertRows, insert_rows, insert_statement
from relay.core.errors import EventError
from relay.postgres.sql import TableName

__all__ = [
    "Enqueued",
    "EventError",
    "InsertRows",
    "NewEvent",
    "Payload",
    "TableName",
    "enqueue",
    "enqueue_async",
    "insert_rows",
    "insert_statement",
    "uuid7",
]
