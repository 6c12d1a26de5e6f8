"""The ClickHouse driver's statements: ``sql/deliverylog/clickhouse``, with its names and variants chosen."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, LiteralString

from relay.core.errors import ConfigError
from relay.deliverylog.errors import DeliveryLogError
from relay.deliverylog.measures import Count
from relay.deliverylog.paging import Scan
from relay.deliverylog.times import to_ms
from relay.postgres.sql import Name, statement, statement_names

_FOLDER = "deliverylog/clickhouse"
_PREFIX = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,39})?")
_LISTS = ("event_log_attempts", "event_log_events")
QUARANTINE = "event_log_quarantine"
RECORD = "event_log_migration"
TABLES = ("event_log", *_LISTS, QUARANTINE)
"""What has the retention. The names are those of the files, without a prefix."""
FEEDS = tuple(f"{name}_feed" for name in _LISTS)
_NAMES = (*TABLES, *FEEDS, RECORD)
_DAYS = "30"  # in the files
_TTL = re.compile(r" TTL (.+?)(?: SETTINGS .*)?$", re.DOTALL)
_OWN_TTL = re.compile(r"toDateTime\((?:delivery_time|time|quarantined_at)\) \+ toIntervalDay\((\d+)\)")

# The filter whose list is read; the others discard rows of it. The first that the query has.
_EVENT_DRIVERS = ("destination_id", "event_id", "topic")  # the list rows hold no destinations to filter by
_ATTEMPT_DRIVERS = ("event_id", "code", "destination_id", "topic", "status", "destination_type")
_TENANT_LISTS = ("code", "destination_id", "topic", "status")  # there is one for each tenant too

Statement = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Branch:
    """One range of one list: read alone it is in order, several of them are merged by the reader."""

    list: str
    owners: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def single(self) -> bool:
        """Whether this is one range and not a set of them."""
        return len(self.owners) == len(self.values) == 1


class ClickHouseStatements:
    """Every statement under one prefix. Raises ConfigError for a prefix that no table's name can begin with."""

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigError(
                f"{prefix!r} is not a table prefix; use letters, digits and _, at most 40, a letter first"
            )
        self._prefix = prefix
        self._names: dict[str, Name] = {name: self.table(name) for name in _NAMES}

    def table(self, name: str) -> str:
        """The real name of a table that the files call ``name``."""
        return f"{self._prefix}{name}"

    def text(self, name: str, *tags: str) -> LiteralString:
        """A statement by its file and name, ``list:events``, in the variant that ``tags`` choose."""
        return statement(f"{_FOLDER}/{name}", names=self._names, tags=tags)

    def file(self, name: str) -> tuple[LiteralString, ...]:
        """All statements of a file in their order, for example of ``migrations/0001_tables``."""
        return tuple(self.text(f"{name}:{each}") for each in statement_names(f"{_FOLDER}/{name}"))

    def ttl(self, days: int, *, sync: bool) -> list[tuple[str, str]]:
        """Each table with the statement that makes ``days`` its retention; with ``sync`` it deletes before it ends."""
        names = {**self._names, _DAYS: days}
        tags = ["sync"] if sync else []
        statements = {
            "event_log": ("set", names),
            **{table: ("set_lists", {**names, "event_log_lists": self.table(table)}) for table in _LISTS},
            QUARANTINE: ("set_quarantine", names),
        }
        return [
            (self.table(table), statement(f"{_FOLDER}/retention:{name}", names=own, tags=tags))
            for table, (name, own) in statements.items()
        ]

    def no_ttl(self, table: str) -> str:
        """The statement that ends the retention of a table, by its real name, that has one."""
        return statement(f"{_FOLDER}/retention:remove", names={"event_log": table})

    def list_keys(self, scan: Scan, branch: Branch, most: int) -> Statement:
        """The statement that reads up to ``most`` keys, copies included, from one branch of a listing."""
        by_event = scan.sort_by == "event_time"
        tags = {"desc" if scan.descending else "asc", "by_event" if by_event else "by_time", *scan.window}
        parameters: dict[str, Any] = {"list": branch.list, "fetch": most}
        parameters.update((name, to_ms(bound)) for name, bound in scan.window.items())
        for name, values in scan.filters.items():
            tags.add(f"filter_{name}")
            parameters[name] = list(values)
        if branch.single:
            tags.add("one")
            parameters.update(owner=branch.owners[0], value=branch.values[0])
        else:
            parameters.update(owners=list(branch.owners), values=list(branch.values))
        if scan.position is not None:
            at = scan.position
            tags.update(("after", *(() if at.tenant_id is None else ("twin",))))
            parameters.update(at=at.ms, at_id=at.id, at_tenant=at.tenant_id or "")
            parameters.update(at_event=at.event_ms, at_event_id=at.event_id)
        name = "list:events" if scan.resource == "evt" else "list:attempts"
        return self.text(name, *tags), parameters

    def count(self, kind: str, count: Count) -> Statement:
        """The statement that counts by slots and dimensions."""
        tags, parameters = count.variant(to_ms)
        if count.slots is not None and count.slots.width is None:
            tags.add("months")
            parameters["begins"] = list(count.slots.begins)
        elif count.slots is not None:
            tags.add("uniform")
            parameters.update(first=count.slots.begins[0], width=count.slots.width)
        return self.text(f"metrics:count_{kind}", *tags), parameters

    def combine(self, kind: str, count: Count, most: int) -> Statement:
        """The statement that counts combinations of dimension values."""
        tags, parameters = count.variant(to_ms)
        return self.text(f"metrics:combine_{kind}", *tags), {**parameters, "most": most}


def branches(scan: Scan, most: int) -> tuple[list[Branch], Scan]:
    """The list ranges that make up a listing, and the scan with what these ranges do not already filter.

    Up to ``most`` ranges are read one by one and merged; more are one branch, which the server sorts.
    """
    if scan.sort_by == "event_time":  # one list has this order
        driver, of_all, of_tenant = None, "order", "tenant_order"
    else:
        drivers = _EVENT_DRIVERS if scan.resource == "evt" else _ATTEMPT_DRIVERS
        driver = next((driver for driver in drivers if driver in scan.filters), None)
        of_all, of_tenant = (driver, f"tenant_{driver}") if driver else ("all", "tenant")
    rest = dict(scan.filters)
    values: tuple[str, ...] = rest.pop(driver) if driver else ("",)
    name: str = of_all
    owners: tuple[str, ...] = ("",)
    if "tenant_id" in rest and (driver is None or driver in _TENANT_LISTS):
        name, owners = of_tenant, rest.pop("tenant_id")
    narrowed = replace(scan, filters=rest)
    if len(owners) * len(values) > most:
        return [Branch(name, owners, values)], narrowed
    return [Branch(name, (owner,), (value,)) for owner in owners for value in values], narrowed


def ttl_days(engine: str, table: str) -> int | None:
    """The retention that a table's engine clause states; None for none.

    Raises DeliveryLogError for a TTL that the log did not write: it is not the log's to read or change.
    """
    clause = _TTL.search(engine)
    if clause is None:
        return None
    match = _OWN_TTL.fullmatch(clause[1])
    if match is None:
        raise DeliveryLogError(
            f"table {table} has the TTL {clause[1]}, which the delivery log did not write. Remove it and let the log "
            f"manage the retention (ALTER TABLE {table} REMOVE TTL), or unset DELIVERY_LOG_RETENTION_DAYS"
        )
    return int(match[1])
