"""Arrow values to JSON text, whole columns at a time: only binary values become Python objects.

The text is that of Spark's own ``to_json`` with ``ignoreNullFields=false`` and UTC as its time zone: nulls
stay, binary is base64, times are ISO 8601 with microseconds, NaN and the infinities are strings.
"""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc

_CONTROLS = [(chr(code), json.dumps(chr(code))[1:-1]) for code in range(0x20)]
_ANY_CONTROL = "[\\x00-\\x1f]"


def json_column(column: pa.Array) -> pa.Array:
    """The JSON text of each value, ``null`` for a null; an array of strings without nulls."""
    text = _text(column)
    return pc.fill_null(pc.if_else(pc.is_valid(column), text, pa.scalar(None, pa.string())), "null")


def json_array(columns: list[pa.Array]) -> pa.Array:
    """The JSON array of each row's values."""
    return _join("[", [json_column(column) for column in columns], "]")


def _text(column: pa.Array) -> pa.Array:
    """The JSON text of each value; undefined for a null."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _struct(column)
    if pa.types.is_map(kind):
        return _join_members(column, _entries(column), "{", "}")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _join_members(column, json_column(column.values), "[", "]")
    return _leaf(column, kind)


def _leaf(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return _floating(column)
    if pa.types.is_timestamp(kind):
        return _timestamp(column, zoned=kind.tz is not None)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    return _quote(_base64(column) if _is_binary(kind) else _escape(column.cast(pa.string())))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _base64(column: pa.Array) -> pa.Array:
    encoded = (None if value is None else base64.b64encode(value).decode() for value in column.to_pylist())
    return pa.array(encoded, pa.string())


def _escape(column: pa.Array) -> pa.Array:
    column = pc.replace_substring(column, "\\", "\\\\")
    column = pc.replace_substring(column, '"', '\\"')
    if pc.any(pc.match_substring_regex(column, _ANY_CONTROL)).as_py():
        for character, escape in _CONTROLS:
            column = pc.replace_substring(column, character, escape)
    return column


def _quote(column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', column, '"', "")


def _floating(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    text = pc.if_else(pc.is_nan(column), '"NaN"', text)
    name = pc.if_else(pc.greater(column, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_inf(column), name, text)


def _timestamp(column: pa.Array, *, zoned: bool) -> pa.Array:
    """From the number of microseconds: Arrow's own formatting of zoned times needs a time zone database."""
    naive = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).cast(pa.timestamp("us"))
    text = pc.replace_substring(naive.cast(pa.string()), " ", "T")
    return pc.binary_join_element_wise('"', text, 'Z"' if zoned else '"', "")


def _struct(column: pa.Array) -> pa.Array:
    fields = []
    for number, field in enumerate(column.type):
        name = json.dumps(field.name, ensure_ascii=False)
        fields.append(pc.binary_join_element_wise(f"{name}:", json_column(column.field(number)), ""))
    if not fields:
        return pa.array(["{}"] * len(column), pa.string())
    return _join("{", fields, "}")


def _entries(column: pa.Array) -> pa.Array:
    keys = _quote(_escape(column.keys.cast(pa.string())))
    return pc.binary_join_element_wise(keys, json_column(column.items), ":")


def _join_members(column: pa.Array, texts: pa.Array, opening: str, closing: str) -> pa.Array:
    """The text of each list or map, from the texts of all members in order."""
    offsets = column.offsets.cast(pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return pc.binary_join_element_wise(opening, joined, closing, "")


def _join(opening: str, parts: list[pa.Array], closing: str) -> pa.Array:
    between = pc.binary_join_element_wise(*parts, ",")
    return pc.binary_join_element_wise(opening, between, closing, "")
