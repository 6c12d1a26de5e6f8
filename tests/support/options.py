"""The options of each room as the daemon builds them from an environment without variables, but for some fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from relay.app import build, publishers
from relay.brokers.aws.options import AwsOptions
from relay.brokers.http.options import HttpOptions
from relay.brokers.kafka.options import KafkaOptions
from relay.brokers.nats.options import NatsOptions
from relay.brokers.rabbitmq.options import RabbitOptions
from relay.brokers.redis.options import RedisOptions
from relay.core.backoff import RetryPolicy
from relay.deliverylog.log_options import RecorderOptions
from relay.engine.engine_options import EngineOptions
from relay.outbox.outbox_options import PostgresOptions
from relay.postgres.sql import TableName
from relay.settings.settings import Settings

T = TypeVar("T")
DEFAULTS = Settings.from_env({"STORAGE_URL": "postgres://user@host/database"})


def retry_policy(**changes: Any) -> RetryPolicy:
    return replace(build.retry_policy(DEFAULTS), **changes)


def engine_options(**changes: Any) -> EngineOptions:
    return replace(build.engine_options(DEFAULTS), **changes)


def storage_options(url: str, relay_id: str, table: TableName | None = None, **changes: Any) -> PostgresOptions:
    return replace(build.storage_options(DEFAULTS), url=url, relay_id=relay_id, table=table or TableName(), **changes)


def kafka_options(url: str, **changes: Any) -> KafkaOptions:
    return _options(KafkaOptions, _for_broker("kafka", "host:9092"), url=url, **changes)


def nats_options(url: str, **changes: Any) -> NatsOptions:
    return _options(NatsOptions, _for_broker("nats", "nats://host:4222"), url=url, **changes)


def redis_options(url: str, **changes: Any) -> RedisOptions:
    return _options(RedisOptions, _for_broker("redis", "redis://host:6379"), url=url, **changes)


def rabbit_options(url: str, **changes: Any) -> RabbitOptions:
    return _options(RabbitOptions, _for_broker("rabbitmq", "amqp://host"), url=url, **changes)


def http_options(url: str, **changes: Any) -> HttpOptions:
    """For a receiver on loopback, unless ``allow_private`` says otherwise."""
    return _options(HttpOptions, _for_broker("http", "https://host/"), url=url, **({"allow_private": True} | changes))


def aws_options(url: str, **changes: Any) -> AwsOptions:
    return _options(AwsOptions, _for_broker(url.partition(":")[0], url), url=url, **changes)


def recorder_options(**changes: Any) -> RecorderOptions:
    return replace(build.recorder_options(DEFAULTS), **changes)


def _options(kind: type[T], settings: Settings, /, **changes: Any) -> T:
    options = replace(publishers.options_of(settings), **changes)
    assert isinstance(options, kind)
    return options


def _for_broker(publisher_type: str, url: str) -> Settings:
    storage_url = "postgres://user@host/database"
    return Settings.from_env({"STORAGE_URL": storage_url, "PUBLISHER_TYPE": publisher_type, "PUBLISHER_URL": url})
