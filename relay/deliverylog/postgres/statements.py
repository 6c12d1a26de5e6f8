"""The PostgreSQL driver's statements: ``sql/deliverylog/postgres``, with its names and variants chosen."""

from __future__ import annotations

import re
from typing import Any, LiteralString

from relay.core.errors import ConfigError
from relay.deliverylog import limits
from relay.deliverylog.cursor import EVENTS
from relay.deliverylog.measures import Count
from relay.deliverylog.paging import Scan
from relay.deliverylog.records import FAILED
from relay.deliverylog.times import from_ms
from relay.postgres.sql import DEFAULT_LOG_SCHEMA, LONGEST_IDENTIFIER, statement, statement_names, without_parameters

_FOLDER = "deliverylog/postgres"
_SCHEMA = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_IDENTIFIER - 1}}}")
_PARENT = "events"
_PARTITION = "events_2000_01"
_ROLE = "app_role"

Statement = tuple[LiteralString, dict[str, Any]]

# The filter that drives a listing: its values are index ranges of their own, merged. The first that the query has.
_EVENT_DRIVERS = ("event_id", "topic")
_ATTEMPT_DRIVERS = ("event_id", "code", "destination_id", "topic", "destination_type", "status")
_ORDER_DRIVERS = ("event_id",)


class PostgresStatements:
    """Every statement of one schema. Raises ConfigError for a name that a schema cannot have here."""

    def __init__(self, schema: str) -> None:
        if not _SCHEMA.fullmatch(schema):
            raise ConfigError(
                f"{schema!r} is not a schema name; use letters, digits and _, at most {LONGEST_IDENTIFIER}"
            )
        self.schema = schema
        self.jit_off = statement("session:jit_off")
        """For the transaction of a listing of several values."""

    def text(self, name: str, *tags: str) -> LiteralString:
        """A statement by its file and name, ``list:events``, in the variant that ``tags`` choose."""
        return statement(f"{_FOLDER}/{name}", names={DEFAULT_LOG_SCHEMA: self.schema}, tags=tags)

    def on_partition(self, name: str, parent: str, partition: str) -> LiteralString:
        """A statement that is written for the table ``events`` and its partition ``events_2000_01``."""
        names = {DEFAULT_LOG_SCHEMA: self.schema, _PARENT: parent, _PARTITION: partition}
        return statement(f"{_FOLDER}/{name}", names=names)

    def file(self, name: str) -> tuple[LiteralString, ...]:
        """All statements of a file in their order, for example of ``definitions``; sent without parameters."""
        path = f"{_FOLDER}/{name}"
        names = {DEFAULT_LOG_SCHEMA: self.schema}
        return tuple(without_parameters(statement(f"{path}:{each}", names=names)) for each in statement_names(path))

    def grants(self, role: str, purpose: str) -> list[LiteralString]:
        """The statements that grant ``role`` the rights to record or to read, and no others."""
        names = {DEFAULT_LOG_SCHEMA: self.schema, _ROLE: role}
        paths = [name for name in statement_names(f"{_FOLDER}/grants") if name.startswith(f"{purpose}_")]
        return [without_parameters(statement(f"{_FOLDER}/grants:{name}", names=names)) for name in paths]

    def list_events(self, scan: Scan) -> Statement:
        """The statement of one page of events."""
        if "destination_id" not in scan.filters:
            return self._listing("list:events", scan, _EVENT_DRIVERS)
        return self._listing("list:events_by_destination", scan, ("destination_id",))

    def list_attempts(self, scan: Scan) -> Statement:
        """The statement of one page of attempts."""
        return self._listing("list:attempts", scan, _ATTEMPT_DRIVERS if scan.sort_by == "time" else _ORDER_DRIVERS)

    def _listing(self, name: str, scan: Scan, drivers: tuple[str, ...]) -> Statement:
        driver = next((driver for driver in drivers if driver in scan.filters), None)
        tags = {"desc" if scan.descending else "asc", "by_time" if scan.sort_by == "time" else "by_event"}
        tags.update(scan.window)
        parameters: dict[str, Any] = {"fetch": scan.fetch, "most_bytes": limits.MOST_PAGE_BYTES, **scan.window}
        if scan.with_data:
            tags.add("data")
        for column, values in scan.filters.items():
            if column == driver:
                tags.update(("branch", f"branch_{column}", *(["many_values"] if len(values) > 1 else [])))
                parameters["value"] = list(values)
            elif column == "tenant_id":
                tags.update(("tenant_id", *(["many_tenants"] if len(values) > 1 else [])))
                parameters[column] = list(values)
            else:
                tags.add(_filter(scan, column, driver))
                parameters[column] = list(values)
        if scan.position is not None:
            tags.add("after")
            parameters.update(at=from_ms(scan.position.ms), at_id=scan.position.id)
            parameters.update(at_event=from_ms(scan.position.event_ms), at_event_id=scan.position.event_id)
            if scan.position.tenant_id is not None:
                tags.add("twin")
                parameters["at_tenant"] = scan.position.tenant_id
        return self.text(name, *tags), parameters

    def count(self, kind: str, count: Count) -> Statement:
        """The statement that counts by slots and dimensions."""
        tags, parameters = count.variant(lambda time: time)
        if count.slots is not None and count.slots.width is None:
            tags.add("months")
            parameters["begins"] = [from_ms(begin) for begin in count.slots.begins]
        elif count.slots is not None:
            tags.add("uniform")
            parameters.update(first=from_ms(count.slots.begins[0]), width=f"{count.slots.width} milliseconds")
        return self.text(f"metrics:count_{kind}", *tags), parameters

    def combine(self, kind: str, count: Count, most: int) -> Statement:
        """The statement that counts combinations of dimension values."""
        tags, parameters = count.variant(lambda time: time)
        return self.text(f"metrics:combine_{kind}", *tags), {**parameters, "most": most}


def _filter(scan: Scan, column: str, driver: str | None) -> str:
    """The tag of a filter beside the driving one. With = an index that has both keeps a page's order."""
    values = scan.filters[column]
    if column == "status" and values == (FAILED,):
        return "filter_failed"  # a constant: the planner knows that the indexes of failures serve it
    if scan.resource != EVENTS and (driver, column, len(values)) == ("destination_id", "topic", 1):
        return "filter_one_topic"
    return f"filter_{column}"
