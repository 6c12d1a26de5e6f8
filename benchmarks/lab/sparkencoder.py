"""What the writer's encoder costs without Spark and without a database: ``python -m benchmarks.lab.sparkencoder``.

Microseconds of one core a row, medians over rounds of 20,000 rows in batches of 10,000, for rows of four shapes: ready
ones with an id and a body of 512 bytes; orders of 12 columns to JSON with an id of ``idColumns`` (the first example of
docs/guide/spark.md); the same with an id of the content; bodies that are all equal, with an id of the content.
``--profile`` shows where the second shape's time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from statistics import median
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from relay.spark.write.columns import read_columns
from relay.spark.write.frames import Framer
from relay.spark.write.identity import job_namespace

ROWS = 20_000
BATCH_ROWS = 10_000
_NOW = (0).to_bytes(8, "big")


def ready() -> pa.RecordBatch:
    """Ids and binary bodies."""
    ids = pa.array([str(uuid4()) for _ in range(ROWS)])
    bodies = pa.array([md5(str(number).encode(), usedforsecurity=False).digest() * 32 for number in range(ROWS)])
    return pa.record_batch([ids, _types(), bodies], ["event_id", "event_type", "payload"])


def orders() -> pa.RecordBatch:
    """Orders as a struct, with their number."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    numbers = range(ROWS)
    fields = {
        "number": pa.array(numbers, pa.int64()),
        "customer": pa.array([f"customer-{number % 1000}" for number in numbers]),
        "status": pa.array([("placed", "paid", "shipped")[number % 3] for number in numbers]),
        "currency": pa.array(["EUR"] * ROWS),
        "total": pa.array([Decimal(number % 100_000).scaleb(-2) for number in numbers], pa.decimal128(12, 2)),
        "discount": pa.array([number % 40 / 80 for number in numbers], pa.float64()),
        "items": pa.array([number % 9 + 1 for number in numbers], pa.int32()),
        "paid": pa.array([number % 2 == 0 for number in numbers]),
        "ordered_at": pa.array(
            [begin + timedelta(seconds=number, microseconds=3 * number) for number in numbers],
            pa.timestamp("us", "UTC"),
        ),
        "ship_on": pa.array([date(2026, 1, 2) + timedelta(number % 300) for number in numbers]),
        "address": pa.array([f"Street {number % 400}, Utrecht" for number in numbers]),
        "note": pa.array([f'{md5(b"%d" % number).hexdigest()} is left at the "door"' for number in numbers]),
    }
    payload = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    columns = [_types(), payload, fields["customer"], fields["number"]]
    return pa.record_batch(columns, ["event_type", "payload", "partition_key", "number"])


def equal() -> pa.RecordBatch:
    """Bodies that are all the same."""
    body = pa.repeat(pa.scalar('{"a":1,"note":"the same in all rows"}'), ROWS)
    return pa.record_batch([_types(), body], ["event_type", "payload"])


def encoder(batch: pa.RecordBatch, *keys: str) -> Callable[[], None]:
    """Encodes the batch once, as one partition."""
    schema = from_arrow_schema(batch.schema)
    assert isinstance(schema, StructType)
    columns = read_columns(schema, None, keys)

    def encode() -> None:
        framer = Framer(columns, None, "", job_namespace(""))
        for start in range(0, ROWS, BATCH_ROWS):
            for _ in framer.frames(batch.slice(start, BATCH_ROWS), _NOW, None):
                pass

    return encode


def _types() -> pa.Array:
    return pa.repeat(pa.scalar("orders.created"), ROWS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    documented = encoder(orders(), "number")
    shapes = {
        "ready ids, bodies of 512 bytes": encoder(ready()),
        "struct of 12 to JSON, idColumns": documented,
        "struct of 12 to JSON, no id": encoder(orders().drop_columns(["number"])),
        "equal bodies, no id": encoder(equal()),
    }
    if options.profile:
        cProfile.runctx("for _ in range(20): documented()", {"documented": documented}, {}, sort="tottime")
        return
    times: dict[str, list[float]] = {name: [] for name in shapes}
    for _ in range(options.rounds):
        for name, encode in shapes.items():
            began = time.process_time()
            encode()
            times[name].append((time.process_time() - began) * 1e6 / ROWS)
    print("| rows | us of one core a row, median (lowest-highest) |\n|---|---|")
    for name, each in times.items():
        print(f"| {name} | {median(each):.2f} ({min(each):.2f}-{max(each):.2f}) |")


if __name__ == "__main__":
    main()
