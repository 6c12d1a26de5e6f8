"""The arguments of the job ``reconcile``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

from relay.core.formats.choice import CLOUDEVENTS, NAMES, message_format
from relay.core.formats.cloudevents import KAFKA
from relay.core.formats.message import MessageFormat
from relay.core.headers import REPLAY_HEADER
from relay.postgres.sql import TableName
from relay.spark.jobs.arguments import (
    SPARK_OPTION,
    TIME,
    Arguments,
    Kind,
    choice,
    is_empty,
    json_summary,
    names,
    option,
    outbox_table,
    outbox_url,
    output_folder,
    pairs,
    read_file,
    read_tasks,
    refuse,
    spark_jars,
    spark_packages,
    spark_remote,
    texts,
)

KINDS: Final = ("missing", "duplicated", "changed", "out_of_order", "unexpected")
"""Kinds of findings."""
FIELDS: Final = ("event_id", "topic", "key", "payload", "headers", "partition", "offset", "time")
"""What a consumer's table may have of an event; only the first is needed."""
_FIXED: Final = ("kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign", "includeheaders")
"""Options of Spark's Kafka source that the job sets."""


def _properties(path: str) -> tuple[tuple[str, str], ...]:
    """A file's lines ``NAME=VALUE`` as options of Spark's Kafka source. No error shows a line: it may be a secret."""
    lines = [line.strip() for line in read_file(path).splitlines()]
    parts = [line.partition("=") for line in lines if line and not line.startswith("#")]
    if not all(name.strip() and sign for name, sign, _ in parts):
        raise ValueError(f"{path}: a line that is not NAME=VALUE")
    return tuple((f"kafka.{name.strip().removeprefix('kafka.')}", value.strip()) for name, _, value in parts)


_PROPERTIES: Final = Kind("FILE", _properties, absent=tuple, hidden=True)
_SENT: Final = "the events that were sent: the outbox, an archive, or both"
_RESULT: Final = "the result"
_sent = partial(option, group=_SENT)
_kafka = partial(option, group="where they arrived: Kafka")
_consumer = partial(option, group="or a table that a consumer wrote")
_result = partial(option, group=_RESULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileArguments(Arguments):
    """Prove that the events of the outbox have arrived: compare rows with messages."""

    name: ClassVar[str] = "reconcile"

    url: str | None = outbox_url(group=_SENT)
    table: TableName = outbox_table(group=_SENT)
    partitions: int = read_tasks(group=_SENT)
    archive: str | None = _sent("an archive of relay-cli spark archive", "PATH", replaces_environment=True)
    since: datetime | None = _sent("only events created from then on, such as 2026-03-10T00:00:00Z", TIME)
    until: datetime | None = _sent("only events created before then", TIME)
    event_types: tuple[str, ...] = _sent("only events of these types", names("A,B"), flag="--event-type")

    kafka: str | None = _kafka("brokers to connect to first", "HOST:PORT,…")
    topics: tuple[str, ...] = _kafka("read these topics (default: the types of the events)", names("A,B"))
    kafka_options: tuple[tuple[str, str], ...] = _kafka(
        "of Spark's Kafka source; repeatable", SPARK_OPTION, flag="--kafka-option"
    )
    kafka_properties: tuple[tuple[str, str], ...] = _kafka(
        "lines NAME=VALUE of Kafka's client, secrets included", _PROPERTIES, flag="--kafka-options-file"
    )

    format_name: str = _kafka(
        "what the messages look like", choice(*NAMES), default="openoutbox", flag="--message-format"
    )
    cloudevents_source: str | None = _kafka("the relay's CLOUDEVENTS_SOURCE, for cloudevents", Kind("URI"))

    consumer: tuple[str, ...] = _consumer("files or a folder; repeatable", texts("PATH"))
    consumer_table: str | None = _consumer("a table of Spark's catalog", "NAME")
    consumer_format: str | None = _consumer("any that Spark reads (default: parquet)", "FORMAT")
    consumer_options: tuple[tuple[str, str], ...] = _consumer(
        "of the format; repeatable", SPARK_OPTION, flag="--consumer-option"
    )
    consumer_columns: tuple[tuple[str, str], ...] = _consumer(
        f"the column of each field; fields: {', '.join(FIELDS)} (default: event_id=event_id, and no other)",
        pairs("FIELD=COLUMN,…"),
    )

    output: str = output_folder(group=_RESULT)
    as_json: bool = json_summary(group=_RESULT)
    tolerated: tuple[str, ...] = _result(
        f"findings that are no reason for exit code 3: {', '.join(KINDS)}", names("KIND,…"), flag="--tolerate"
    )
    ignored_headers: tuple[str, ...] = _result(
        "not compared, as replay_id always; repeatable", texts("NAME"), flag="--ignore-header"
    )

    remote: str | None = spark_remote()
    packages: str | None = spark_packages()
    jars: str | None = spark_jars()

    exit_codes: ClassVar[str] = "0 no findings, 1 failed, 2 wrong arguments, 3 findings, 130 interrupted"
    examples: ClassVar[str] = """\
examples:
  the outbox against Kafka, all topics that its rows name:
    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 reconcile.py \\
      --url-file /secrets/outbox-url --kafka broker1:9092,broker2:9092 --output /reports/monday
  the last day only, and the archive beside the table:
    spark-submit … reconcile.py --url-file /secrets/outbox-url --archive s3a://lake/outbox \\
      --since 2026-03-10T00:00:00Z --kafka broker1:9092 --output s3a://lake/reports/2026-03-10
  a broker that needs a login, its properties in a file (security.protocol=SASL_SSL and so on):
    relay-cli spark reconcile --kafka broker:9093 --kafka-options-file kafka.properties \\
      --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 --output report
  the archive against the table of a consumer, whose columns have other names:
    relay-cli spark reconcile --archive /data/archive --consumer /data/orders \\
      --consumer-columns event_id=id,payload=body,key=customer --output report
"""

    def __post_init__(self) -> None:
        fields = {field for field, _ in self.consumer_columns} - {*FIELDS}
        kinds = {*self.tolerated} - {*KINDS}
        fixed = [name for name, _ in self.source_options if name.lower() in _FIXED]
        refuse(
            (not (self.url or self.archive), "--url, --url-file or --archive: missing; give the events that were sent"),
            is_empty(self.since, self.until),
            (self.consumer and self.consumer_table, "--consumer and --consumer-table: give one of the two"),
            (
                bool(self.kafka) == self.has_consumer,
                "--kafka, or --consumer or --consumer-table: give one of the two, where the events arrived",
            ),
            (
                (self.format_name in CLOUDEVENTS) != bool(self.cloudevents_source),
                "--cloudevents-source and --message-format cloudevents or cloudevents-structured: give both or none",
            ),
            (fields, f"--consumer-columns: {', '.join(sorted(fields))}: no such field; known: {', '.join(FIELDS)}"),
            (kinds, f"--tolerate: {', '.join(sorted(kinds))}: no such kind; known: {', '.join(KINDS)}"),
            (fixed, f"--kafka-option: {', '.join(fixed)}: is set by --kafka and --topics"),
        )

    @property
    def has_consumer(self) -> bool:
        """Whether the events arrived in a consumer's table, and not in Kafka."""
        return bool(self.consumer or self.consumer_table or self.consumer_format)

    @property
    def columns(self) -> dict[str, str]:
        """The column of each field that the consumer's table has."""
        return {"event_id": "event_id", **dict(self.consumer_columns)}

    @property
    def source_options(self) -> tuple[tuple[str, str], ...]:
        """Options of Spark's Kafka source."""
        return (*self.kafka_options, *self.kafka_properties)

    @property
    def message_format(self) -> MessageFormat | None:
        """What the relay makes of a row; None for the contract's own form."""
        return message_format(self.format_name, self.cloudevents_source or "", KAFKA)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Headers that are not compared."""
        return (REPLAY_HEADER, *self.ignored_headers)
