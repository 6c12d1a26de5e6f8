"""The arguments of the job ``replay``."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar, Final
from uuid import UUID

from openoutbox import uuid7
from relay.core.durations import parse_bound
from relay.postgres.sql import TableName
from relay.spark.jobs.arguments import (
    AGE,
    FLAG,
    SETTLED_STATUSES,
    STATUS,
    Arguments,
    Kind,
    count,
    json_summary,
    option,
    outbox_table,
    outbox_url,
    refuse,
    spark_remote,
    texts,
)
from relay.spark.optionparser import uuid_of

Bound = datetime | timedelta
"""A time, or an age at the first start of the replay."""


def _rate(value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not 0.01 <= rate <= 1e9:
        raise ValueError(f"{value!r} is not a number of events a second from 0.01 on")
    return rate


_STATUS: Final = replace(STATUS, absent=tuple)
_BOUND: Final = Kind("TIME|AGE", parse_bound)
_selector = partial(option, group="which events (they match all of these options; give at least one)")
_OUTBOX: Final = "the outbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayArguments(Arguments):
    """Send past events again: insert copies of them, from an archive or the table, into the outbox."""

    name: ClassVar[str] = "replay"

    archive: str | None = option("where the events come from; without it: the table", "FOLDER")
    statuses: tuple[str, ...] = _selector("repeatable (default: both)", _STATUS, flag="--status")
    since: Bound | None = _selector("delivered, or dead, since then", _BOUND, flag="--from")
    until: Bound | None = _selector("delivered, or dead, before then", _BOUND, flag="--to")
    types: tuple[str, ...] = _selector("of that event type; repeatable", texts("TYPE"), flag="--type")
    keys: tuple[str, ...] = _selector("of that partition key; repeatable", texts("KEY"), flag="--key")
    tenants: tuple[str, ...] = _selector("of that tenant; repeatable", texts("TENANT"), flag="--tenant")
    tenant_header: str = _selector("the header that names the tenant", "NAME", default="tenant_id")
    replay_id: UUID = option("of a replay to resume (default: a new id)", Kind("UUID", uuid_of, absent=uuid7))
    rate: float | None = option("events a second over the whole job, at most", Kind("N", _rate))
    nats_duplicate_window: float = option(
        "leave out, for now, events delivered within the stream's duplicate window: NATS would drop their copies",
        AGE,
        default="0",
        variable="PUBLISHER_URL",
    )
    dry_run: bool = option("count the events; insert nothing", FLAG)
    as_json: bool = json_summary()
    url: str = outbox_url(group=_OUTBOX, required=True)
    table: TableName = outbox_table(group=_OUTBOX)
    max_connections: int = option("connections that insert, at most", count(1000), default="4", group=_OUTBOX)
    batch_rows: int = option("events of one transaction", count(100_000), default="1000", group=_OUTBOX)
    remote: str | None = spark_remote()

    exit_codes: ClassVar[str] = "0 done, 1 failed or events left out for now, 2 wrong arguments, 130 interrupted"
    examples: ClassVar[str] = """\
examples:
  delivered events of one type and two hours, from the archive, at most 500 a second:
    spark-submit replay.py --archive s3a://lake/outbox --type orders.created --rate 500 \\
      --from 2026-01-31T10:00:00Z --to 2026-01-31T12:00:00Z --url-file /secrets/outbox-url
  count them first, and change nothing:
    relay-cli spark replay --archive /data/outbox --type orders.created --from 2d --dry-run
  all events that died in the last day, from the table:
    relay-cli spark replay --status dead --from 1d
  resume an interrupted replay: the same arguments, and its id:
    relay-cli spark replay --status dead --from 1d --replay-id 019b0a00-0000-7000-8000-000000000000
"""

    def __post_init__(self) -> None:
        selectors = (self.statuses, self.since, self.until, self.types, self.keys, self.tenants)
        refuse((not any(selectors), "say which events: --status, --from, --to, --type, --key or --tenant"))

    @property
    def selected_statuses(self) -> tuple[str, ...]:
        """Both, unless an option names one."""
        return self.statuses or SETTLED_STATUSES

    def selection(self) -> str:
        """The selection and its source as JSON, by which a replay that is run again is compared with its record."""
        names = ("since", "until", "types", "keys", "tenants", "tenant_header")
        values = {name: getattr(self, name) for name in names}
        source = {"source": self.archive or "table", "statuses": self.selected_statuses}
        return json.dumps({**source, **values}, sort_keys=True, default=str)
