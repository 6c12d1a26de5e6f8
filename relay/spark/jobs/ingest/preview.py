"""A dry run: the first rows of a DataFrame as they would be inserted, one JSON object each; writes nothing."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from relay.spark.write.columns import Columns, read_columns
from relay.spark.write.frames import Framer
from relay.spark.write.identity import job_namespace
from relay.spark.write.jsontext import json_column
from relay.spark.write.write_options import WriteOptions

ROWS = 10


def preview(frame: DataFrame, options: WriteOptions) -> Iterator[str]:
    """The first rows. Raises EventError for columns and rows that are not valid events."""
    columns = read_columns(frame.schema, options.event_type, options.id_columns)
    framer = Framer(columns, options.event_type, options.job or "", job_namespace("preview"))
    for batch in frame.limit(ROWS).toArrow().to_batches():
        yield from _lines(framer, columns, batch)


def _lines(framer: Framer, columns: Columns, batch: pa.RecordBatch) -> Iterator[str]:
    parts = framer.parts(batch)
    ids = [str(uuid.UUID(bytes=each.tobytes())) for each in framer.ids(batch, parts)]
    derived = columns.event_id is None and not columns.id_columns
    times = [None] * batch.num_rows if parts.available_at is None else json_column(parts.available_at).to_pylist()
    for index, (event_id, time) in enumerate(zip(ids, times, strict=True)):
        row = {
            "event_id": "derived when it is written" if derived else event_id,
            "event_type": parts.event_type[index].as_py(),
            "partition_key": parts.partition_key[index].as_py(),
            "headers": json.loads(parts.headers[index].as_py()),
            "available_at": "now" if time in (None, "null") else json.loads(time),
            **_payload(parts.payload[index].as_py()),
        }
        yield json.dumps(row, ensure_ascii=False)


def _payload(value: str | bytes) -> dict[str, str]:
    if isinstance(value, str):
        return {"payload": value}
    try:
        return {"payload": value.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(value).decode()}
