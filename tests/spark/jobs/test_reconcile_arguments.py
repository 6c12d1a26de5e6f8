"""The arguments of ``reconcile``: their values, and the errors for invalid ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.spark.jobs.arguments import CommandLine
from relay.spark.jobs.reconcile.arguments import ReconcileArguments

URL = "postgresql://u:hush@h/d"
BOTH = ["--url", URL, "--kafka", "b:9092"]


def read(*arguments: str) -> ReconcileArguments:
    return CommandLine(ReconcileArguments, "reconcile", ["--output", "out/", *arguments]).read({})


def test_options_become_values(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("# login\nsecurity.protocol = SASL_SSL\nkafka.sasl.jaas.config=a=b;\n\n")
    job = read(*BOTH, "--since", "2026-03-10", "--until", "2026-03-11T00:00:00+01:00", "--event-type", "a, b",
               "--kafka-options-file", str(tmp_path / "kafka"), "--kafka-option", "minPartitions=20",
               "--tolerate", "duplicated,out_of_order", "--ignore-header", "trace", "--jars", "x.jar")  # fmt: skip
    assert job.since == datetime(2026, 3, 10, tzinfo=UTC)
    assert job.until == datetime(2026, 3, 10, 23, tzinfo=UTC)
    assert job.event_types == ("a", "b")
    assert job.output == "out"
    assert dict(job.source_options) == {
        "minPartitions": "20",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": "a=b;",
    }
    assert job.tolerated == ("duplicated", "out_of_order")
    assert job.ignored == ("replay_id", "trace")
    assert job.jars == "x.jar"
    assert "hush" not in repr(job)
    assert "a=b" not in repr(job)


def test_a_message_format_and_its_source() -> None:
    assert read(*BOTH).message_format is None
    assert read(*BOTH, "--message-format", "debezium").message_format is not None
    assert read(*BOTH, "--message-format", "cloudevents", "--cloudevents-source", "/shop").message_format is not None
    for wrong in (["--message-format", "cloudevents"], ["--cloudevents-source", "/shop"]):
        with pytest.raises(ConfigError, match="--cloudevents-source and --message-format"):
            read(*BOTH, *wrong)


def test_a_consumers_columns() -> None:
    job = read("--archive", "a", "--consumer", "p", "--consumer-columns", "event_id=id,payload=body")
    assert job.has_consumer
    assert job.columns == {"event_id": "id", "payload": "body"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kafka", "b:9092"], "give the events that were sent"),
        (["--url", URL], "where the events arrived"),
        ([*BOTH, "--consumer", "p"], "give one of the two"),
        (["--url", "mysql://x", "--kafka", "b"], "--url: not a PostgreSQL URL"),
        ([*BOTH, "--since", "yesterday"], "--since: 'yesterday' is not a time"),
        ([*BOTH, "--since", "2026-03-11", "--until", "2026-03-10"], "must be earlier"),
        ([*BOTH, "--tolerate", "all"], "--tolerate: all: no such kind; known: missing"),
        ([*BOTH, "--kafka-option", "subscribe=a"], "--kafka-option: subscribe: is set by --kafka"),
        ([*BOTH, "--kafka-option", "subscribe"], "--kafka-option: 'subscribe' is not NAME=VALUE"),
        (["--archive", "a", "--consumer", "p", "--consumer-columns", "id=x"], "--consumer-columns: id: no such field"),
        (["--archive", "a", "--consumer", "p", "--consumer-table", "t"], "give one of the two"),
    ],
)
def test_invalid_values_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(*arguments)
    assert message in str(raised.value)
    assert "hush" not in str(raised.value)


def test_a_line_of_secrets_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("=hush\n")
    with pytest.raises(ConfigError, match=r"--kafka-options-file: .*kafka: a line that is not") as raised:
        read(*BOTH, "--kafka-options-file", str(tmp_path / "kafka"))
    assert "hush" not in str(raised.value)
