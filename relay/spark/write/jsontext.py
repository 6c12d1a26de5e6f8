"""Arrow values to JSON text, whole columns at a time: only binary values become Python objects.

docs/reference/spark.md has each type's form beside that of Spark's ``to_json``. Nulls stay, binary is base64, times are
ISO 8601 in UTC with microseconds, a double keeps its point, NaN and the infinities are strings.

A column's text is made of pieces: constants, and arrays with one element a row. A struct's pieces are those of its
fields, so that a row of a flat struct is joined once, whatever the number of its fields.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_FIRST_PRINTABLE: Final = 0x20

Piece: TypeAlias = "str | pa.Array"
"""A constant, or an array with one element a row."""


def json_column(column: pa.Array) -> pa.Array:
    """The JSON text of each value, ``null`` for a null; an array of strings without nulls."""
    return _joined(_pieces(column), len(column))


def json_array(columns: list[pa.Array]) -> pa.Array:
    """The JSON array of each row's values; decimals as in ``plain_decimals``, whose nulls are null."""
    pieces: list[Piece] = ["["]
    for number, column in enumerate(columns):
        plain = pa.types.is_decimal(column.type)
        value = [pc.fill_null(plain_decimals(column), "null")] if plain else _pieces(column)
        pieces += [*([","] if number else []), *value]
    return _joined([*pieces, "]"], len(columns[0]))


def plain_decimals(column: pa.Array) -> pa.Array:
    """Decimals as text without an exponent and without zeros at their end: ``1.10`` and ``1.1000`` are ``1.1``."""
    text = column.cast(pa.string())
    if pc.any(pc.match_substring(text, "E")).as_py():
        text = pa.array([None if value is None else f"{value:f}" for value in column.to_pylist()], pa.string())
    text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "")


def _pieces(column: pa.Array) -> Sequence[Piece]:
    """The pieces of each value's text; ``null`` for a null."""
    kind = column.type
    if pa.types.is_null(kind):
        return ["null"]
    pieces = _struct(column) if pa.types.is_struct(kind) else _value(column, kind)
    if not column.null_count:
        return pieces
    text = _joined(pieces, len(column))
    return [pc.if_else(column.is_valid(), text, "null")]


def _value(column: pa.Array, kind: pa.DataType) -> Sequence[Piece]:
    """The pieces of a value that is no struct; those of a null may be anything."""
    if pa.types.is_map(kind):
        return ["{", _members(column, _entries(column)), "}"]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ["[", _members(column, json_column(column.values)), "]"]
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return [column.cast(pa.string())]
    if pa.types.is_floating(kind):
        return _floating(column)
    if pa.types.is_timestamp(kind):
        return _timestamp(column, zoned=kind.tz is not None)
    return ['"', _characters(column, kind), '"']


def _characters(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """What is between the quotes."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _base64(column)
    text = column.cast(pa.string())
    return text if pa.types.is_date(kind) else _escape(text)


def _struct(column: pa.Array) -> Sequence[Piece]:
    pieces: list[Piece] = []
    for number, field in enumerate(column.type):
        name = json.dumps(field.name, ensure_ascii=False)
        pieces += [f"{',' if number else '{'}{name}:", *_pieces(column.field(number))]
    return [*pieces, "}"] if pieces else ["{}"]


def _joined(pieces: Sequence[Piece], count: int) -> pa.Array:
    """The pieces of each row as one text. Neighbouring constants become one; a null's pieces are empty."""
    merged: list[Piece] = []
    for constant, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        neighbours = list(group)
        merged += ["".join(neighbours)] if constant else neighbours
    if len(merged) == 1 and isinstance(merged[0], str):
        return pa.repeat(pa.scalar(merged[0], pa.string()), count)
    return pc.binary_join_element_wise(*merged, "", null_handling="replace", null_replacement="")


def _base64(column: pa.Array) -> pa.Array:
    encoded = (None if value is None else base64.b64encode(value).decode() for value in column.to_pylist())
    return pa.array(encoded, pa.string())


def _escape(column: pa.Array) -> pa.Array:
    """With JSON's escapes. What needs one is looked for among all bytes at once, which is cheaper than a search."""
    characters = _bytes(column)
    if (characters == ord("\\")).any():  # first, since the other escapes add backslashes
        column = pc.replace_substring(column, "\\", "\\\\")
    if (characters == ord('"')).any():
        column = pc.replace_substring(column, '"', '\\"')
    controls = characters[characters < _FIRST_PRINTABLE]
    for character in map(chr, np.unique(controls)):
        column = pc.replace_substring(column, character, json.dumps(character)[1:-1])
    return column


def _bytes(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The UTF-8 of all values of a column of strings, one behind the other."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.zeros(0, np.uint8)
    starts = np.frombuffer(offsets, np.int32)
    return np.frombuffer(data, np.uint8)[starts[column.offset] : starts[column.offset + len(column)]]


def _floating(column: pa.Array) -> Sequence[Piece]:
    """With a point or an exponent, so that a reader does not parse it as a whole number: Arrow writes 1.0 as 1."""
    text = column.cast(pa.string())
    if not (_bytes(text) >= ord("a")).any():  # no exponent, NaN or infinity
        values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
        return [text, pc.if_else(pa.array(np.floor(values) == values), ".0", "")]
    text = pc.replace_substring_regex(text, "^(-?[0-9]+)$", r"\1.0")
    if not pc.any(pc.invert(pc.is_finite(column))).as_py():
        return [text]
    text = pc.if_else(pc.is_nan(column), '"NaN"', text)
    name = pc.if_else(pc.greater(column, 0), '"Infinity"', '"-Infinity"')
    return [pc.if_else(pc.is_inf(column), name, text)]


def _timestamp(column: pa.Array, *, zoned: bool) -> Sequence[Piece]:
    """From the number of microseconds: Arrow's own formatting of zoned times needs a time zone database."""
    naive = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).cast(pa.timestamp("us"))
    return ['"', pc.replace_substring(naive.cast(pa.string()), " ", "T"), 'Z"' if zoned else '"']


def _entries(column: pa.Array) -> pa.Array:
    keys = _escape(column.keys.cast(pa.string()))
    return _joined(['"', keys, '":', *_pieces(column.items)], len(column.items))


def _members(column: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of each list's or map's members, from those of all members in order, with commas between."""
    offsets = column.offsets.cast(pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
