"""Event ids: read from a column, or derived so that a repeated task derives the same ids.

- From a business key (``idColumns``): UUIDv5 of job, event type and key. Two rows with one key are one event, however
  the data is partitioned and however often the job runs. ``key_id`` derives the id of a single key in advance.
- From the content: UUIDv5 of job, partition, the row's content, and the number of equal rows before it in its
  partition. Equal rows stay several events; their order in the partition does not matter.
"""

from __future__ import annotations

import hashlib
import json
from binascii import unhexlify
from decimal import Decimal
from typing import Final
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from relay.core.errors import EventError
from relay.spark.write.encode import stream
from relay.spark.write.jsontext import json_array

NAMESPACE: Final = UUID("84341a0f-d06f-51e2-8a45-907218e414c1")
"""The namespace of every job's own namespace."""

Ids = npt.NDArray[np.uint8]
"""One row of 16 bytes an event."""

_DIGITS: Final = np.array([index for index in range(36) if index not in (8, 13, 18, 23)])


def job_namespace(job: str) -> UUID:
    """The namespace of a job's ids."""
    return uuid5(NAMESPACE, job)


def key_id(job: str, event_type: str, *key: object) -> UUID:
    """The event id of one business key of text, whole numbers, decimals and booleans, as ``idColumns`` derives it.

    A decimal's scale does not matter: ``Decimal("1.10")`` and ``Decimal("1.1")`` are one key.
    """
    return uuid5(job_namespace(job), f"[{','.join(_key_text(value) for value in (event_type, *key))}]")


def ids_of_keys(job: str, event_types: pa.Array, names: list[str], keys: list[pa.Array]) -> Ids:
    """Ids from business keys. Raises EventError for a null in a key: all such rows would be one event."""
    for name, key in zip(names, keys, strict=True):
        if key.null_count:
            raise EventError(f"column {name}: null in {key.null_count} rows; option idColumns needs a value in each")
    return _uuid5(job_namespace(job), json_array([event_types, *keys]).cast(pa.binary()))


def ids_of_content(space: UUID, content: pa.Array, seen: Occurrences) -> Ids:
    """Ids from the rows' content; ``seen`` counts the earlier rows of this partition."""
    ids = _uuid5(space, content)
    numbers = seen.number(ids[:, :8].copy().view(np.uint64).ravel())
    (repeats,) = np.nonzero(numbers)
    if len(repeats):
        marks = pa.array(numbers[repeats]).cast(pa.string()).cast(pa.binary())
        ids[repeats] = _uuid5(space, pc.binary_join_element_wise(content.take(pa.array(repeats)), marks, b"#"))
    return ids


def read_ids(column: pa.Array, *, text: bool) -> Ids:
    """Ids of a column. Raises EventError, which shows the value, for a null and for one that is not a UUID."""
    if column.null_count:
        raise EventError(f"column event_id: null in {column.null_count} rows; drop the column to derive ids")
    if not text:
        return _binary_ids(column.cast(pa.binary()))
    column = column.cast(pa.binary())
    if not len(column) or pc.all(pc.equal(pc.binary_length(column), 36)).as_py():
        ids = _parse(_bytes(column, 36))
        if ids is not None:
            return ids
    return np.frombuffer(b"".join(_uuid(value).bytes for value in column.to_pylist()), np.uint8).reshape(-1, 16)


class Occurrences:
    """Counts of values, in sorted arrays that are merged as they grow: 16 bytes a value."""

    def __init__(self) -> None:
        self._seen: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]] = []

    def number(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """For each of these values, the number of earlier equal ones, in this call and in earlier calls."""
        if not len(values):
            return np.zeros(0, np.int64)
        order = np.argsort(values, kind="stable")
        distinct, first, counts = np.unique(values[order], return_index=True, return_counts=True)
        before = sum((_counts(distinct, *seen) for seen in self._seen), np.zeros(len(distinct), np.int64))
        numbers = np.empty(len(values), np.int64)
        numbers[order] = np.arange(len(values)) - np.repeat(first - before, counts)
        self._remember(distinct, counts.astype(np.int64))
        return numbers

    def _remember(self, values: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]) -> None:
        while self._seen and len(self._seen[-1][0]) <= 2 * len(values):
            older, older_counts = self._seen.pop()
            values, indices = np.unique(np.concatenate([older, values]), return_inverse=True)
            both = np.concatenate([older_counts, counts])
            counts = np.zeros(len(values), np.int64)
            np.add.at(counts, indices, both)
        self._seen.append((values, counts))


def _key_text(value: object) -> str:
    """The JSON text of one value of a key; a decimal as ``plain_decimals`` writes it."""
    if not isinstance(value, Decimal):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _counts(
    distinct: npt.NDArray[np.uint64], values: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    indices = np.minimum(np.searchsorted(values, distinct), len(values) - 1)
    return np.where(values[indices] == distinct, counts[indices], 0)


def _uuid5(space: UUID, names: pa.Array) -> Ids:
    prefix = hashlib.sha1(space.bytes, usedforsecurity=False)
    digests = []
    for name in names.to_pylist():
        digest = prefix.copy()
        digest.update(name)
        digests.append(digest.digest())
    ids = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 20)[:, :16].copy()
    ids[:, 6] = ids[:, 6] & 0x0F | 0x50
    ids[:, 8] = ids[:, 8] & 0x3F | 0x80
    return ids


def _binary_ids(column: pa.Array) -> Ids:
    wrong = pc.not_equal(pc.binary_length(column), 16)
    if pc.any(wrong).as_py():
        raise EventError(f"column event_id: {pc.sum(wrong).as_py()} values are not 16 bytes long")
    return _bytes(column, 16)


def _bytes(column: pa.Array, width: int) -> Ids:
    return np.frombuffer(stream(column), np.uint8).reshape(-1, width)


def _parse(text: Ids) -> Ids | None:
    """Ids of 32 digits and four dashes; None when one has another form."""
    if not (text[:, (8, 13, 18, 23)] == ord("-")).all():
        return None
    try:
        return np.frombuffer(unhexlify(text[:, _DIGITS].tobytes()), np.uint8).reshape(-1, 16)
    except ValueError:
        return None


def _uuid(value: bytes) -> UUID:
    try:
        return UUID(value.decode())
    except ValueError:
        raise EventError(f"column event_id: {value.decode(errors='replace')!r} is not a UUID") from None
