"""Event ids, against the library's UUIDv5 and plain counting."""

from __future__ import annotations

import uuid
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.errors import EventError
from relay.spark.write.identity import Ids, Occurrences, ids_of_content, ids_of_keys, job_namespace, key_id, read_ids


def uuids(ids: Ids) -> list[uuid.UUID]:
    return [uuid.UUID(bytes=row.tobytes()) for row in ids]


def test_a_key_makes_the_uuid_that_is_documented() -> None:
    ids = ids_of_keys("job", pa.array(["t", 'é"']), ["a", "b"], [pa.array([1, 2]), pa.array(["x", "y\n"])])
    assert uuids(ids) == [key_id("job", "t", 1, "x"), key_id("job", 'é"', 2, "y\n")]
    assert key_id("job", "t", 1, "x") == uuid.uuid5(job_namespace("job"), '["t",1,"x"]')
    assert all(each.version == 5 and each.variant == uuid.RFC_4122 for each in uuids(ids))


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.decimal128(38, 18)])
def test_a_decimals_scale_does_not_change_its_id(kind: pa.DataType) -> None:
    values = [Decimal(text) for text in ("1.1", "-1.10", "100", "0.00", "0.01")]
    ids = uuids(ids_of_keys("job", pa.array(["t"] * 5), ["a"], [pa.array(values, kind)]))
    assert ids == [key_id("job", "t", value) for value in values]
    assert ids[0] == key_id("job", "t", Decimal("1.1000")) == uuid.uuid5(job_namespace("job"), '["t",1.1]')
    assert ids[2] == key_id("job", "t", Decimal("1E+2")) == key_id("job", "t", 100)


def test_a_key_that_is_null_is_refused() -> None:
    with pytest.raises(EventError, match="column a: null in 1 rows"):
        ids_of_keys("job", pa.array(["t", "t"]), ["a"], [pa.array([1, None])])


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=12))
def test_occurrences_are_counted_over_all_that_came_before(batches: list[list[int]]) -> None:
    seen = Occurrences()
    counted: Counter[int] = Counter()
    for batch in batches:
        expected = []
        for value in batch:
            expected.append(counted[value])
            counted[value] += 1
        assert seen.number(np.array(batch, np.uint64)).tolist() == expected


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=20), st.randoms(use_true_random=False))
def test_content_makes_one_id_a_row_whatever_the_order_and_the_batches(rows: list[bytes], chance: object) -> None:
    space = uuid.uuid4()
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]

    def ids(these: list[bytes], step: int) -> list[uuid.UUID]:
        seen = Occurrences()
        batches = [pa.array(these[at : at + step], pa.binary()) for at in range(0, len(these), step)]
        return [each for batch in batches for each in uuids(ids_of_content(space, batch, seen))]

    first = ids(rows, 7)
    assert len(set(first)) == len(rows)
    assert set(first) == set(ids(shuffled, 3))
    assert not set(first) & set(uuids(ids_of_content(uuid.uuid4(), pa.array(rows, pa.binary()), Occurrences())))


@given(
    st.lists(st.uuids(), max_size=5),
    st.sampled_from([str, lambda each: each.hex, lambda each: f"{{{each}}}", str.upper]),
)
def test_ids_in_a_column_are_used(ids: list[uuid.UUID], spelt: object) -> None:
    texts = [str(spelt(str(each) if spelt is str.upper else each)) for each in ids]  # type: ignore[operator]
    assert uuids(read_ids(pa.array(texts, pa.string()), text=True)) == ids
    assert uuids(read_ids(pa.array([each.bytes for each in ids], pa.binary()), text=False)) == ids


@pytest.mark.parametrize("text", ["me", "84341a0f-d06f-51e2-8a45-907218e414cg", "84341a0f+d06f-51e2-8a45-907218e414c1"])
def test_what_is_no_id_is_shown(text: str) -> None:
    with pytest.raises(EventError, match="is not a UUID") as caught:
        read_ids(pa.array([str(uuid.uuid4()), text]), text=True)
    assert repr(text) in str(caught.value)


def test_nulls_and_wrong_lengths_are_refused() -> None:
    with pytest.raises(EventError, match="null in 1 rows"):
        read_ids(pa.array([None, str(uuid.uuid4())]), text=True)
    with pytest.raises(EventError, match="1 values are not 16 bytes"):
        read_ids(pa.array([b"short", uuid.uuid4().bytes]), text=False)
