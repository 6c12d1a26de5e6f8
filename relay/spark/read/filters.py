"""What of a query's conditions PostgreSQL is asked for: values for the parameters of a reading statement.

Only conditions that mean the same there as in Spark, to the last row, are taken over; all others stay with Spark. So
text is compared for equality and beginnings only (its order is the collation's there and the bytes' here), ids only in
the form in which they are read, times by the microsecond. Values travel as parameters and are in no text.
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


@dataclass(frozen=True, slots=True)
class FilterTable:
    """What a reading statement can be asked: its parameters are a column's name with ``_in``, ``_from`` and so on."""

    fields: tuple[Field, ...]
    parameters: frozenset[str]

    def nothing(self) -> Values:
        """No condition at all."""
        return dict.fromkeys(self.parameters)


@dataclass(slots=True)
class Conditions:
    """Conditions taken over so far, all of which hold."""

    table: FilterTable
    values: Values = field(default_factory=dict)

    def push(self, filters: Iterable[Filter]) -> list[Filter]:
        """Take over what can be; those that Spark has to look after are given back."""
        return [each for each in filters if not self._take(each)]

    def parameters(self) -> Values:
        """For the statement: every condition, NULL where there is none."""
        return self.table.nothing() | self.values

    def _take(self, given: Filter) -> bool:
        inner = given.child if isinstance(given, Not) else given
        attribute: tuple[str, ...] = getattr(inner, "attribute", ())
        column = next((each for each in self.table.fields if attribute == (each.name,)), None)
        if column is None:
            return False
        took = False
        match given:
            case Not():
                took = self._without(column, inner)
            case IsNull() | IsNotNull():
                took = self._presence(column, isinstance(given, IsNull))
            case EqualTo() | EqualNullSafe() | In():
                took = self._among(column, given)
            case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
                took = self._range(column, given)
            case StringStartsWith():
                took = self._begins(column, given)
        return took

    def _without(self, column: Field, inner: Filter) -> bool:
        unwanted = _members(inner)
        if not unwanted or column.kind is not FieldKind.text or not all(map(_is_text, unwanted)):
            return False
        return self._add(f"{column.name}_not", unwanted, lambda old, new: [*old, *new])

    def _presence(self, column: Field, missing: bool) -> bool:
        if not column.nullable:
            return not missing
        name = f"{column.name}_null"
        if self.values.get(name, missing) != missing:
            return False
        return self._add(name, missing, lambda old, _: old)

    def _among(self, column: Field, given: Filter) -> bool:
        wanted = _members(given)
        if column.kind is FieldKind.time:
            return self._at(column, [_moment(each) for each in wanted])
        if column.kind is FieldKind.uuid:
            wanted = [_id(each) for each in wanted]
            usable = None not in wanted
        else:
            usable = column.kind is FieldKind.text and all(map(_is_text, wanted))
        if not wanted or not usable:
            return False
        return self._add(f"{column.name}_in", wanted, lambda old, new: [each for each in old if each in new])

    def _at(self, column: Field, wanted: list[datetime | None]) -> bool:
        """A moment is a range of one tick; of several moments the range around them, and Spark looks more closely."""
        moments = [each for each in wanted if each is not None]
        if not moments or len(moments) < len(wanted):
            return False
        took = self._bound(column, "from", min(moments)) and self._bound(column, "below", _next(max(moments)))
        return took and len(moments) == 1

    def _range(self, column: Field, given: Bounded) -> bool:
        value: UUID | datetime | None = None
        if column.kind is FieldKind.time:
            value = _moment(given.value)
        elif column.kind is FieldKind.uuid:
            value = _id(given.value)
        if value is None:
            return False
        behind = isinstance(given, GreaterThan | LessThanOrEqual)
        side = "from" if isinstance(given, GreaterThan | GreaterThanOrEqual) else "below"
        return self._bound(column, side, _next(value) if behind else value)

    def _bound(self, column: Field, side: str, value: UUID | datetime | None) -> bool:
        """``from`` is the first that is wanted, ``below`` the first that is not."""
        if value is None:
            return False
        return self._add(f"{column.name}_{side}", value, max if side == "from" else min)

    def _begins(self, column: Field, given: StringStartsWith) -> bool:
        name = f"{column.name}_prefix"
        if column.kind is not FieldKind.text or not _is_text(given.value) or name in self.values:
            return False
        return self._add(name, given.value, max)

    def _add(self, name: str, value: object, both: Callable[[Any, Any], Any]) -> bool:
        if name not in self.table.parameters:
            return False
        self.values[name] = both(self.values[name], value) if name in self.values else value
        return True


def _members(given: Filter) -> list[Any]:
    if isinstance(given, In):
        return list(given.value)
    return [given.value] if isinstance(given, EqualTo | EqualNullSafe) else []


def _is_text(value: object) -> bool:
    """Text that PostgreSQL can be asked for; it has none with a NUL character."""
    return isinstance(value, str) and "\x00" not in value


def _id(value: object) -> UUID | None:
    """An id in the form in which ids are read; any other text equals none of them."""
    if not isinstance(value, str):
        return None
    try:
        found = UUID(value)
    except ValueError:
        return None
    return found if str(found) == value else None


def _moment(value: object) -> datetime | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return value.astimezone(UTC)


def _next(value: UUID | datetime) -> UUID | datetime | None:
    """The value behind this one, if there is one."""
    if isinstance(value, UUID):
        return None if value == _LAST_ID else UUID(int=value.int + 1)
    try:
        return value + _TICK
    except OverflowError:
        return None
