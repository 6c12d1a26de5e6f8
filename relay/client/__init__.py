"""The former name of ``openoutbox``. It works for one release and warns."""

import warnings

from openoutbox import (
    Enqueued,
    EventError,
    InsertRows,
    NewEvent,
    Payload,
    TableName,
    enqueue,
    enqueue_async,
    insert_rows,
    insert_statement,
    uuid7,
)

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

warnings.warn(
    "relay.client is now the package openoutbox (distribution openoutbox-client) and goes in the next release: "
    "import openoutbox, or from openoutbox import inbox",
    DeprecationWarning,
    stacklevel=2,
)
