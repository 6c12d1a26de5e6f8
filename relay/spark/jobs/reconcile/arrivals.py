"""Where events arrive: Kafka's topics, or a table that a consumer writes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from relay.core.errors import ConfigError
from relay.spark.jobs.javaerrors import JAVA_ERRORS
from relay.spark.jobs.reconcile.arguments import ReconcileArguments
from relay.spark.jobs.reconcile.compare import COMPARED
from relay.spark.jobs.reconcile.fingerprints import from_kafka, from_table

MOST_TOPICS: Final = 10_000
"""The number of event types that are searched as topics, at most."""

_LEGAL: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_SKEW: Final = timedelta(hours=1)
"""How far a producer's clock may be behind the database's clock."""
_NO_SOURCE: Final[tuple[type[Exception], ...]] = (AnalysisException, *JAVA_ERRORS)
"""What PySpark raises for an unknown data source, among other errors."""
_NO_MESSAGES: Final = (
    "topic string, key binary, value binary, headers array<struct<key:string,value:binary>>, "
    "partition int, offset long, timestamp timestamp"
)


def from_topics(session: SparkSession, job: ReconcileArguments, rows: DataFrame) -> DataFrame:
    """Fingerprints of all present messages of the topics.

    A missing topic has no messages. With ``since`` messages are read from one hour before it on.
    """
    topics = job.topics or _topics(rows)
    if not topics:
        return from_kafka(session.createDataFrame([], _NO_MESSAGES), job.ignored)
    pattern = "|".join(topic.replace(".", "[.]") for topic in topics)
    reader = (
        session.read.format("kafka")
        .options(**dict(job.source_options))
        .option("kafka.bootstrap.servers", str(job.kafka))
        .option("subscribePattern", pattern)
        .option("includeHeaders", "true")
    )
    if job.since is not None:
        moment = int((job.since - _SKEW).timestamp() * 1000)
        reader = reader.option("startingTimestamp", str(moment)).option("startingOffsetsByTimestampStrategy", "latest")
    try:
        messages = reader.load()
        messages.columns  # noqa: B018 - Spark Connect looks for the source only when it needs it
        return from_kafka(messages, job.ignored)
    except _NO_SOURCE as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error) and "Failed to find" not in str(error):
            raise
        raise ConfigError(
            "--kafka: this Spark has no Kafka source; give spark-submit, this command, or with Spark Connect "
            f"start-connect-server.sh, --packages org.apache.spark:spark-sql-kafka-0-10_2.13:{session.version}"
        ) from None


def from_consumer(session: SparkSession, job: ReconcileArguments) -> DataFrame:
    """Fingerprints of the consumer's table. Raises ConfigError for a missing column."""
    if job.consumer_table is not None:
        frame = session.table(job.consumer_table)
    else:
        reader = session.read.format(job.consumer_format or "parquet").options(**dict(job.consumer_options))
        frame = reader.load(list(job.consumer) or None)
    return from_table(frame, job.columns, job.ignored)


def compared(job: ReconcileArguments) -> tuple[str, ...]:
    """The fields of arrived events that can be compared."""
    return tuple(name for name in COMPARED if name in job.columns) if job.has_consumer else COMPARED


def ordered(job: ReconcileArguments) -> bool:
    """Whether the order of arrival is known."""
    return not job.has_consumer or "offset" in job.columns


def _topics(rows: DataFrame) -> tuple[str, ...]:
    """The event types that are valid names of topics. Raises ConfigError for too many."""
    types = [row["topic"] for row in rows.select("topic").distinct().limit(MOST_TOPICS + 1).collect()]
    if len(types) > MOST_TOPICS:
        raise ConfigError(f"--topics: the events have more than {MOST_TOPICS} types; name the topics to read")
    return tuple(sorted(topic for topic in types if _LEGAL.fullmatch(topic)))
