"""An outbox made once: its table, what becomes JSON and how, and the headers of all its events.

    outbox = Outbox(encode=str, headers={"source": "shop"})

    @event("order.placed", key="customer_id")
    @dataclass
    class OrderPlaced:
        customer_id: str
        amount: Decimal

    outbox.enqueue(connection, OrderPlaced("ada", Decimal("9.90")))

An event is a ``NewEvent``, or an object of a class that ``event`` declared: a dataclass, a model of pydantic or a
struct of msgspec, whose fields are the payload. Nothing is sent before all events of a call are made and checked.
Promises are those of ``enqueue``, which it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from openoutbox.announce import Enqueued, enqueue, enqueue_async
from openoutbox.errors import EventError
from openoutbox.names import DEFAULT_TABLE, TableName
from openoutbox.newevent import NewEvent, json_text

if TYPE_CHECKING:
    from openoutbox.targets import AsyncTarget, SyncTarget

_Class = TypeVar("_Class", bound=type)
_DECLARED: Final = "__openoutbox_event__"


class _Declared(NamedTuple):
    event_type: str
    key: str | None


def event(event_type: str, *, key: str | None = None) -> Callable[[_Class], _Class]:
    """Declare that objects of a class are events of this type.

    ``key`` names the field with the partition key: what belongs together and is to stay in order. A value that is no
    text becomes text by ``str``, None stays none. Below ``@dataclass`` or above it, as one likes. Raises EventError
    for a type that is no text, empty, or longer than a row can hold, as ``NewEvent`` does.
    """
    NewEvent(event_type, b"")  # checks the type

    def declare(declared: _Class) -> _Class:
        setattr(declared, _DECLARED, _Declared(event_type, key))
        return declared

    return declare


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """Where an application announces its events. May be shared by threads and tasks; holds no connection."""

    table: str | TableName = DEFAULT_TABLE
    """``table`` or ``schema.table``."""
    encode: Callable[[object], object] | None = None
    """Says what a value without a JSON form (datetime, Decimal, UUID, Enum) becomes; without it such a value is
    refused. ``str`` does for most; it raises TypeError to refuse one."""
    headers: Mapping[str, object] | Callable[[], Mapping[str, object]] | None = None
    """Headers of each event, or what gives them at the time of the call; an event's own win."""
    trace: bool = False
    """Add the context of the active OpenTelemetry span."""

    def enqueue(
        self, target: SyncTarget, events: object | Iterable[object], *, in_order: bool = False, autocommit: bool = False
    ) -> Enqueued:
        """As ``openoutbox.enqueue``: insert one event or any number of them in the caller's transaction.

        Raises what it raises, and ``EventError`` for an object whose class was not declared by ``event``.
        """
        announced = self._announced(events)
        return enqueue(target, announced, table=self.table, trace=self.trace, in_order=in_order, autocommit=autocommit)

    async def enqueue_async(
        self,
        target: AsyncTarget,
        events: object | Iterable[object],
        *,
        in_order: bool = False,
        autocommit: bool = False,
    ) -> Enqueued:
        """As ``enqueue``, for asynchronous connections, cursors and sessions of psycopg, asyncpg and SQLAlchemy."""
        announced = self._announced(events)
        return await enqueue_async(
            target, announced, table=self.table, trace=self.trace, in_order=in_order, autocommit=autocommit
        )

    def new(
        self,
        payload: object,
        *,
        headers: Mapping[str, object] | None = None,
        unique: str | None = None,
        delay: timedelta | None = None,
        available_at: datetime | None = None,
    ) -> NewEvent:
        """The event that an object of a declared class is, where it needs more than its fields.

        Raises EventError, as ``NewEvent`` does and for a class that was not declared.
        """
        declared: _Declared | None = getattr(type(payload), _DECLARED, None)
        if declared is None:
            raise EventError(
                f"events: a {type(payload).__name__}, whose class is no event; declare it with "
                '@openoutbox.event("order.placed", key="customer_id"), or pass openoutbox.NewEvent'
            )
        return NewEvent(
            declared.event_type,
            json_text("payload", payload, self._plain),
            _key(payload, declared),
            {**self._headers(), **(headers or {})},
            delay=delay,
            available_at=available_at,
            unique=unique,
        )

    def _announced(self, events: object | Iterable[object]) -> list[NewEvent]:
        if isinstance(events, NewEvent) or hasattr(type(events), _DECLARED) or not isinstance(events, Iterable):
            return [self._event(events)]
        return [self._event(each) for each in events]

    def _event(self, each: object) -> NewEvent:
        if not isinstance(each, NewEvent):
            return self.new(each)
        own = self._headers()
        return replace(each, payload=each.body, headers={**own, **each.headers}) if own else each

    def _headers(self) -> Mapping[str, object]:
        if self.headers is None:
            return {}
        return self.headers() if callable(self.headers) else self.headers

    def _plain(self, value: object) -> object:
        """What a value that JSON does not know becomes; models stand in models, too."""
        named = _fields_of(value)
        if named is not None:
            return named
        if self.encode is None:
            raise TypeError(f"a {type(value).__name__} has no JSON form; convert it first, or give Outbox(encode=...)")
        return self.encode(value)


def _fields_of(value: object) -> Mapping[str, object] | None:
    """Name to value of a dataclass, a model of pydantic or a struct of msgspec; None for anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if (dump := getattr(value, "model_dump", None)) is not None:  # pydantic
        dumped: Mapping[str, object] = dump()
        return dumped
    if (names := getattr(value, "__struct_fields__", None)) is not None:  # msgspec
        written = getattr(value, "__struct_encode_fields__", names)
        return {name: getattr(value, own) for own, name in zip(names, written, strict=True)}
    return None


def _key(payload: object, declared: _Declared) -> str | None:
    if declared.key is None:
        return None
    try:
        value = getattr(payload, declared.key)
    except AttributeError:
        raise EventError(
            f"partition_key: a {type(payload).__name__} has no {declared.key!r}, which its @event names as the key"
        ) from None
    return None if value is None else str(value)
