"""Settings into options: a variable's default stands in the settings and nowhere else."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from relay.app import build
from relay.brokers.kafka.options import KafkaOptions
from relay.brokers.nats.options import NatsOptions
from relay.brokers.redis.options import RedisOptions
from relay.core.backoff import RetryPolicy
from relay.deliverylog.log_options import DeliveryLogOptions, RecorderOptions
from relay.deliverylog.mapping import Naming
from relay.engine.engine_options import EngineOptions
from relay.outbox.outbox_options import PostgresOptions
from relay.server.http import ServerOptions
from relay.settings.settings import Settings
from tests.support.options import (
    engine_options,
    kafka_options,
    nats_options,
    recorder_options,
    redis_options,
    storage_options,
)

ALONE = {
    EngineOptions: {"probe_timeout", "sample_interval"},
    PostgresOptions: {"statement_timeout", "ping_timeout"},
    KafkaOptions: {"queue_messages", "queue_bytes", "now", "live"},
    NatsOptions: {"max_pending", "live"},
    RedisOptions: {"max_pending", "max_bulk", "live"},
    RetryPolicy: set[str](),
    ServerOptions: {"limits"},
    RecorderOptions: {"queue_bytes", "write_timeout", "retry_interval"},
    Naming: {"destination_of"},
    DeliveryLogOptions: set[str](),
}
"""The options that no variable sets, and so the only ones with a default of their own."""


@pytest.mark.parametrize("options", ALONE, ids=lambda options: options.__name__)
def test_an_option_has_a_default_only_if_no_variable_sets_it(options: type) -> None:
    defaults = {
        field.name for field in fields(options) if field.default is not MISSING or field.default_factory is not MISSING
    }
    assert defaults == ALONE[options]


@pytest.mark.parametrize("options", ALONE, ids=lambda options: options.__name__)
def test_an_option_that_no_variable_sets_is_not_named_like_one(options: type) -> None:
    prefix = options.__name__.removesuffix("Options").lower()
    assert not {f"{prefix}_{name}" for name in ALONE[options]} & Settings.model_fields.keys()
    assert not ALONE[options] & Settings.model_fields.keys()


def test_options_hold_the_values_of_the_settings() -> None:
    engine, storage = engine_options(), storage_options("postgres://u@h/d", "relay")
    assert (engine.batch_size, engine.max_in_flight, engine.lease_timeout) == (100, 800, 180.0)
    assert (engine.retry, engine.lease_timeout) == (storage.retry, storage.lease_timeout)
    assert (engine.retry.max_attempts, engine.retry.max_delay) == (25, 86_400.0)
    assert (kafka_options("h:1").compression, kafka_options("h:1").required_acks) == ("snappy", "all")
    recorder = recorder_options()
    assert (recorder.batch_size, recorder.queue_size, recorder.naming.destination_id) == (1000, 20_000, "stdout")
    assert (nats_options("nats://h").publish_timeout, redis_options("redis://h").write_timeout) == (5.0, 1.0)


@pytest.mark.parametrize(("lease", "deadline"), [("3m", 15.0), ("30s", 15.0), ("6s", 3.0)])
def test_a_statement_is_given_up_before_a_lease_runs_out(lease: str, deadline: float) -> None:
    settings = Settings.from_env({"STORAGE_URL": "postgres://user@host/database", "LEASE_TIMEOUT": lease})
    assert build.storage_options(settings).statement_timeout == deadline
