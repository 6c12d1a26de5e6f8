"""Arrow batches to the bytes of COPY, read back by a reader of our own."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from relay.core.errors import EventError
from relay.spark.write.columns import ColumnKind, Columns
from relay.spark.write.frames import Framer
from tests.spark.copyformat import Field, read_rows

NOW = (123).to_bytes(8, "big")
SPACE = uuid.UUID(int=1)


def frame_rows(
    columns: Columns, event_type: str | None, *arrays: pa.Array, attempt: int | None = None, now: bytes | None = NOW
) -> list[list[Field]]:
    batch = pa.record_batch(list(arrays), names=[str(place) for place in range(len(arrays))])
    framer = Framer(columns, event_type, "job", SPACE)
    return [row for frame in framer.frames(batch, now, attempt) for row in read_rows(frame.data)]


def micros(moment: datetime) -> bytes:
    return int((moment - datetime(2000, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)).to_bytes(8, "big", signed=True)


def test_every_field_is_where_it_belongs() -> None:
    ids = [uuid.uuid4(), uuid.uuid4()]
    early = datetime(1999, 12, 31, tzinfo=UTC)
    columns = Columns(
        payload=0,
        payload_kind=ColumnKind.binary,
        event_type=1,
        event_id=2,
        event_id_kind=ColumnKind.text,
        partition_key=3,
        headers=4,
        available_at=5,
    )
    rows = frame_rows(
        columns,
        None,
        pa.array([b"\x00body", b""], pa.binary()),
        pa.array(["é", "t"]),
        pa.array([str(each) for each in ids]),
        pa.array([None, "key"]),
        pa.array(['{"a":1}', None]),
        pa.array([early, None], pa.timestamp("us", "UTC")),
    )
    assert rows == [
        [ids[0].bytes, "é".encode(), None, b"\x00body", b'\x01{"a":1}', micros(early)],
        [ids[1].bytes, b"t", b"key", b"", b"\x01{}", NOW],
    ]


def test_staged_rows_carry_attempt_and_number_and_leave_the_time_open() -> None:
    columns = Columns(payload=0, payload_kind=ColumnKind.text, available_at=1)
    times = pa.array([None, datetime(2030, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    rows = frame_rows(columns, "t", pa.array(["a", "b"]), times, attempt=7, now=None)
    assert [(row[0], row[1], row[3], row[7]) for row in rows] == [
        ((7).to_bytes(8, "big"), (0).to_bytes(8, "big"), b"t", None),
        ((7).to_bytes(8, "big"), (1).to_bytes(8, "big"), b"t", micros(datetime(2030, 1, 1, tzinfo=UTC))),
    ]


def test_structs_become_json_and_null_headers_an_empty_object() -> None:
    columns = Columns(payload=0, payload_kind=ColumnKind.json, headers=1, headers_kind=ColumnKind.json)
    headers = pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string()))
    rows = frame_rows(columns, "t", pa.array([{"n": 1}, {"n": None}]), headers)
    assert [(row[3], row[4]) for row in rows] == [(b'{"n":1}', b'\x01{"a":"b"}'), (b'{"n":null}', b"\x01{}")]


def test_the_same_rows_make_the_same_ids_whatever_the_time_of_the_attempt() -> None:
    columns = Columns(payload=0, payload_kind=ColumnKind.text, available_at=1)
    times = pa.array([None, None, None], pa.timestamp("us", "UTC"))
    payload = pa.array(["a", "a", "b"])
    first = frame_rows(columns, "t", payload, times)
    again = frame_rows(columns, "t", payload, times, now=(456).to_bytes(8, "big"))
    assert [row[0] for row in first] == [row[0] for row in again]
    assert len({row[0] for row in first}) == 3


def test_large_types_and_slices_are_the_same_rows() -> None:
    columns = Columns(payload=0, payload_kind=ColumnKind.text, event_id=1)
    ids = [str(uuid.uuid4()) for _ in range(5)]
    texts = [f"text {number}" for number in range(5)]
    plain = frame_rows(columns, "t", pa.array(texts), pa.array(ids))
    large = frame_rows(columns, "t", pa.array(texts, pa.large_string()), pa.array(ids, pa.large_string()))
    sliced = frame_rows(columns, "t", pa.array(["x", *texts, "y"]).slice(1, 5), pa.array(["x", *ids, "y"]).slice(1, 5))
    assert plain == large == sliced


def test_large_batches_are_cut() -> None:
    columns = Columns(payload=0, payload_kind=ColumnKind.binary)
    batch = pa.record_batch([pa.array([b"x" * (1 << 20)] * 80, pa.binary())], names=["payload"])
    frames = list(Framer(columns, "t", "job", SPACE).frames(batch, NOW, None))
    assert len(frames) > 1
    assert sum(frame.count for frame in frames) == 80
    assert max(len(frame.data) for frame in frames) < 40 << 20


def test_what_json_makes_large_is_cut_too() -> None:
    """A megabyte of structs with long names is a hundred of text."""
    names = [f"{number:0100}" for number in range(20)]
    structs = pa.StructArray.from_arrays([pa.array([0] * 50_000, pa.int8())] * 20, names)
    lists = pa.ListArray.from_arrays(pa.array(range(0, 50_001, 250), pa.int32()), structs)
    columns = Columns(payload=0, payload_kind=ColumnKind.json)
    batch = pa.record_batch([lists], names=["payload"])
    sizes = [len(frame.data) for frame in Framer(columns, "t", "job", SPACE).frames(batch, NOW, None)]
    assert sum(sizes) > 100 << 20
    assert max(sizes) < 40 << 20


PLAIN = Columns(payload=0, payload_kind=ColumnKind.text)


@pytest.mark.parametrize(
    ("columns", "arrays", "message"),
    [
        (PLAIN, [pa.array(["a", None])], "column payload: null in 1 rows"),
        (replace(PLAIN, event_type=1), [pa.array(["a"]), pa.array([""])], "column event_type: empty in 1 rows"),
        (replace(PLAIN, event_type=1), [pa.array(["a"]), pa.array([None], pa.string())], "column event_type: null"),
        (replace(PLAIN, event_id=1), [pa.array(["a"]), pa.array(["me"])], "column event_id: 'me' is not a UUID"),
        (replace(PLAIN, id_columns=(("n", 1),)), [pa.array(["a"]), pa.array([None], pa.int64())], "column n: null"),
    ],
)
def test_rows_that_are_no_events_are_refused_by_name(columns: Columns, arrays: list[pa.Array], message: str) -> None:
    with pytest.raises(EventError, match=message):
        frame_rows(columns, None if columns.event_type else "t", *arrays)
