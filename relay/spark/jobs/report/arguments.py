"""The arguments of the job ``report``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

from relay.core.errors import ConfigError
from relay.postgres.url import check_url
from relay.spark.jobs.arguments import (
    DATABASE_URL,
    TIME,
    Arguments,
    is_empty,
    json_summary,
    names,
    option,
    output_folder,
    read_tasks,
    refuse,
    spark_jars,
    spark_packages,
    spark_remote,
)


def _check_log_url(url: str, flag: str) -> None:
    if url.startswith(("clickhouse:", "chdb:", "memory:")):
        raise ConfigError(f"{flag}: reads a delivery log in PostgreSQL; for others use relay-cli log metrics")
    check_url(url, flag)


_LOG_URL: Final = replace(DATABASE_URL, check=_check_log_url)
_SOURCE: Final = "the source: the delivery log, or an archive"
_RESULT: Final = "the result"
_source = partial(option, group=_SOURCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportArguments(Arguments):
    """Report deliveries, failures, retries and latency by event type and hour."""

    name: ClassVar[str] = "report"

    log_url: str | None = _source(
        "the delivery log in PostgreSQL; without the password: others may read it",
        _LOG_URL,
        variable="DELIVERY_LOG_URL",
        replaces_environment=True,
    )
    log_schema: str | None = _source("the log's schema", "SCHEMA", variable="DELIVERY_LOG_SCHEMA")
    partitions: int = read_tasks(group=_SOURCE)
    archive: str | None = _source("an archive of relay-cli spark archive", "PATH", replaces_environment=True)
    since: datetime | None = _source("only outcomes from then on, such as 2026-03-10T00:00:00Z", TIME)
    until: datetime | None = _source("only outcomes before then", TIME)
    event_types: tuple[str, ...] = _source("only events of these types", names("A,B"), flag="--event-type")

    output: str = output_folder(group=_RESULT)
    as_json: bool = json_summary(group=_RESULT)

    remote: str | None = spark_remote()
    packages: str | None = spark_packages()
    jars: str | None = spark_jars()

    examples: ClassVar[str] = """\
examples:
  a day of the delivery log:
    spark-submit report.py --log-url-file /secrets/log-url \\
      --since 2026-03-10T00:00:00Z --until 2026-03-11T00:00:00Z --output /reports/2026-03-10
  all archived events of two types:
    relay-cli spark report --archive s3a://lake/outbox --event-type orders.created,orders.paid --output report
"""

    def __post_init__(self) -> None:
        sources = bool(self.log_url) + bool(self.archive)
        refuse(
            (sources == 2, "--log-url and --archive: give one of the two"),
            (sources == 0, "--log-url, --log-url-file or --archive: missing; give the source of the report"),
            is_empty(self.since, self.until),
        )
