"""The conditions of a query that PostgreSQL evaluates: values for the parameters of a reading statement.

Only conditions that select the same rows in PostgreSQL and in Spark are pushed; Spark evaluates all others. So text is
compared for equality and prefix only (PostgreSQL orders it by collation, Spark by bytes), ids only in the form in which
they are read, times by the microsecond. Values travel as parameters, never as text of the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from relay.spark.read.fields import Field, FieldKind

Values = dict[str, Any]
Bounded = GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual

_TICK: Final = timedelta(microseconds=1)
_LAST_ID: Final = UUID(int=(1 << 128) - 1)


@dataclass(slots=True)
class Conditions:
    """The pushed conditions; a row must match all of them."""

    fields: tuple[Field, ...]
    names: frozenset[str]
    """The parameters of the reading statement: a column's name with ``_in``, ``_from`` and so on."""
    values: Values = field(default_factory=dict)

    def push(self, filters: Iterable[Filter]) -> list[Filter]:
        """Push the filters that PostgreSQL can evaluate; returns those that Spark must evaluate."""
        return [each for each in filters if not self._push(each)]

    def parameters(self) -> Values:
        """Values for all parameters of the statement; NULL for no condition."""
        return dict.fromkeys(self.names) | self.values

    def _push(self, condition: Filter) -> bool:
        inner = condition.child if isinstance(condition, Not) else condition
        attribute: tuple[str, ...] = getattr(inner, "attribute", ())
        column = next((each for each in self.fields if attribute == (each.name,)), None)
        if column is None:
            return False
        pushed = False
        match condition:
            case Not():
                pushed = self._without(column, inner)
            case IsNull() | IsNotNull():
                pushed = self._presence(column, isinstance(condition, IsNull))
            case EqualTo() | EqualNullSafe() | In():
                pushed = self._among(column, condition)
            case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
                pushed = self._range(column, condition)
            case StringStartsWith():
                pushed = self._begins(column, condition)
        return pushed

    def _without(self, column: Field, inner: Filter) -> bool:
        excluded = _members(inner)
        if not excluded or column.kind is not FieldKind.text or not all(map(_is_text, excluded)):
            return False
        return self._add(f"{column.name}_not", excluded, lambda old, new: [*old, *new])

    def _presence(self, column: Field, missing: bool) -> bool:
        if not column.nullable:
            return not missing
        name = f"{column.name}_null"
        if self.values.get(name, missing) != missing:
            return False
        return self._add(name, missing, lambda old, _: old)

    def _among(self, column: Field, condition: Filter) -> bool:
        values = _members(condition)
        if column.kind is FieldKind.time:
            return self._at(column, [_moment(each) for each in values])
        if column.kind is FieldKind.uuid:
            values = [_id(each) for each in values]
            usable = None not in values
        else:
            usable = column.kind is FieldKind.text and all(map(_is_text, values))
        if not values or not usable:
            return False
        return self._add(f"{column.name}_in", values, lambda old, new: [each for each in old if each in new])

    def _at(self, column: Field, values: list[datetime | None]) -> bool:
        """One time is a range of one microsecond; several times are the range around them, which Spark filters."""
        moments = [each for each in values if each is not None]
        if not moments or len(moments) < len(values):
            return False
        pushed = self._bound(column, "from", min(moments)) and self._bound(column, "below", _next(max(moments)))
        return pushed and len(moments) == 1

    def _range(self, column: Field, condition: Bounded) -> bool:
        value: UUID | datetime | None = None
        if column.kind is FieldKind.time:
            value = _moment(condition.value)
        elif column.kind is FieldKind.uuid:
            value = _id(condition.value)
        if value is None:
            return False
        exclusive = isinstance(condition, GreaterThan | LessThanOrEqual)
        side = "from" if isinstance(condition, GreaterThan | GreaterThanOrEqual) else "below"
        return self._bound(column, side, _next(value) if exclusive else value)

    def _bound(self, column: Field, side: str, value: UUID | datetime | None) -> bool:
        """``from`` is the first value inside the range, ``below`` the first value after it."""
        if value is None:
            return False
        return self._add(f"{column.name}_{side}", value, max if side == "from" else min)

    def _begins(self, column: Field, condition: StringStartsWith) -> bool:
        name = f"{column.name}_prefix"
        if column.kind is not FieldKind.text or not _is_text(condition.value) or name in self.values:
            return False
        return self._add(name, condition.value, max)

    def _add(self, name: str, value: object, both: Callable[[Any, Any], Any]) -> bool:
        if name not in self.names:
            return False
        self.values[name] = both(self.values[name], value) if name in self.values else value
        return True


def _members(condition: Filter) -> list[Any]:
    if isinstance(condition, In):
        return list(condition.value)
    return [condition.value] if isinstance(condition, EqualTo | EqualNullSafe) else []


def _is_text(value: object) -> bool:
    """Whether PostgreSQL can store the value: text without a NUL character."""
    return isinstance(value, str) and "\x00" not in value


def _id(value: object) -> UUID | None:
    """An id in the form in which ids are read; None for any other value, which equals no id."""
    if not isinstance(value, str):
        return None
    try:
        uuid = UUID(value)
    except ValueError:
        return None
    return uuid if str(uuid) == value else None


def _moment(value: object) -> datetime | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return value.astimezone(UTC)


def _next(value: UUID | datetime) -> UUID | datetime | None:
    """The next value; None after the last."""
    if isinstance(value, UUID):
        return None if value == _LAST_ID else UUID(int=value.int + 1)
    try:
        return value + _TICK
    except OverflowError:
        return None
