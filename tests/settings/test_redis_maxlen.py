"""REDIS_MAXLEN and REDIS_MAXLEN_STREAMS: what is accepted, and the only thing that the start warns of."""

from __future__ import annotations

import pytest

from relay.app.publishers import options_of
from relay.brokers.redis.session import trimming
from tests.settings.test_settings import refusal, settings

REDIS = {"PUBLISHER_URL": "redis://host:6379/0"}
STREAMS = {"REDIS_MAXLEN_STREAMS": "orders.*,audit"}


def test_streams_keep_everything_unless_told() -> None:
    assert options_of(settings(**REDIS)).maxlen is None


@pytest.mark.parametrize("value", [500, 100_000, 50_000_000])
def test_a_length_from_max_in_flight_on_is_taken_without_a_warning(value: int) -> None:
    accepted = settings(**REDIS, **STREAMS, REDIS_MAXLEN=str(value), BATCH_SIZE="500", MAX_IN_FLIGHT="500")
    assert (options_of(accepted).maxlen, accepted.warnings) == (value, ())
    assert options_of(accepted).maxlen_streams == ("orders.*", "audit")


def test_a_length_below_max_in_flight_is_warned_about() -> None:
    short = STREAMS | {"REDIS_MAXLEN": "99", "BATCH_SIZE": "100", "MAX_IN_FLIGHT": "100"}
    [warning] = settings(**REDIS, **short).warnings
    assert warning.startswith("REDIS_MAXLEN=99 is below MAX_IN_FLIGHT=100: ")
    assert settings(PUBLISHER_URL="nats://host", **short).warnings == ()


def test_a_length_without_streams_trims_none_and_is_warned_about() -> None:
    alone = settings(**REDIS, REDIS_MAXLEN="5000")
    assert [warning.partition(":")[0] for warning in alone.warnings] == ["REDIS_MAXLEN trims no stream"]
    assert trimming(5000, options_of(alone).maxlen_streams or (), "orders.eu") == ()
    assert settings(**REDIS, REDIS_MAXLEN="5000", ALLOWED_EVENT_TYPES="orders.*").warnings == ()
    assert settings(PUBLISHER_URL="nats://host", REDIS_MAXLEN="5000").warnings == ()


def test_streams_without_a_length_are_warned_about() -> None:
    [warning] = settings(**REDIS, **STREAMS).warnings
    assert warning == "REDIS_MAXLEN_STREAMS is set but not used: REDIS_MAXLEN is not set, so no stream is trimmed"


@pytest.mark.parametrize("value", ["0", "-1", "1e6", "~1000", "1.5"])
def test_what_is_no_length_is_refused(value: str) -> None:
    assert refusal(**REDIS, REDIS_MAXLEN=value).startswith(f"REDIS_MAXLEN: {value!r} is not a whole number from 1 to ")
