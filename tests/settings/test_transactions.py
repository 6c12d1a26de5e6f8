"""KAFKA_TRANSACTIONS: refused where it would not keep its promise, and what its names follow from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relay.app.destinations import Destinations, read_plan
from relay.app.publishers import options_of
from relay.app.relay_identity import reported_settings
from relay.core.errors import ConfigError
from relay.core.proofs import ProofReader, Proofs
from relay.settings.settings import Settings

KAFKA = {
    "STORAGE_URL": "postgres://user@host/shop",
    "PUBLISHER_TYPE": "kafka",
    "PUBLISHER_URL": "host:9092",
    "KAFKA_TRANSACTIONS": "true",
}


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"KAFKA_REQUIRED_ACKS": "one"}, "needs KAFKA_REQUIRED_ACKS=all"),
        ({"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": "nats://host"}, "needs PUBLISHER_TYPE=kafka"),
        ({"LEASE_TIMEOUT": "2s"}, "needs a LEASE_TIMEOUT of 3s or more"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(variables: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Settings.from_env(KAFKA | variables)
    Settings.from_env(KAFKA | variables | {"KAFKA_TRANSACTIONS": "false"})


@pytest.mark.parametrize(
    ("variables", "prefix"),
    [
        ({}, "shop.public.openoutbox_events"),
        ({"STORAGE_TABLE_NAME": "sales.events"}, "shop.sales.events"),
        ({"KAFKA_TRANSACTIONS_PREFIX": "mine"}, "mine"),
    ],
)
def test_the_prefix_is_the_name_of_the_outbox_unless_it_is_set(variables: dict[str, str], prefix: str) -> None:
    options = options_of(Settings.from_env(KAFKA | variables))
    assert (options.transactions, options.transactions_prefix) == (True, prefix)


BUS = '[bus]\nurl = "kafka://host:9092"\n'
SET = "kafka_transactions = true\n"
CACHE = '[cache]\nurl = "redis://host"\n'


def with_file(tmp_path: Path, text: str, **variables: str) -> Settings:
    file = tmp_path / "destinations.toml"
    file.write_text(text)
    return Settings.from_env({"STORAGE_URL": KAFKA["STORAGE_URL"], "DESTINATIONS_FILE": str(file), **variables})


@pytest.mark.parametrize(
    ("text", "variables", "has"),
    [
        (BUS + SET + CACHE, {}, [True, False]),
        (CACHE + BUS, {"KAFKA_TRANSACTIONS": "true"}, [False, True]),
        (BUS + CACHE, {}, [False, False]),
        (BUS + SET + CACHE + BUS.replace("bus", "other"), {}, [True, False, False]),
    ],
)
async def test_one_destination_of_several_may_have_it(
    tmp_path: Path, text: str, variables: dict[str, str], has: list[bool]
) -> None:
    settings = with_file(tmp_path, text, **variables)
    plan = read_plan(settings)
    assert [own.kafka_transactions for own in plan.destinations.values()] == has
    assert plan.transactions == any(has)
    told = json.loads(reported_settings(settings))["KAFKA_TRANSACTIONS"]["value"]
    assert told == str(any(has)).lower()
    publisher = Destinations(settings).publisher
    assert isinstance(publisher, ProofReader)
    assert isinstance(publisher, Proofs) == isinstance(publisher.twin(), Proofs) == any(has)
    await publisher.close()


@pytest.mark.parametrize(
    ("text", "variables", "said"),
    [
        (BUS + SET + (BUS + SET).replace("bus", "other"), {}, "destinations bus and other: kafka_transactions is for"),
        (CACHE, {"KAFKA_TRANSACTIONS": "true"}, "KAFKA_TRANSACTIONS=true needs a destination of the type kafka"),
        (CACHE + SET, {}, "destination cache: KAFKA_TRANSACTIONS=true needs type=kafka"),
        (BUS + SET + 'kafka_required_acks = "one"\n', {}, "needs kafka_required_acks=all|needs KAFKA_REQUIRED_ACKS"),
        (BUS + SET, {"LEASE_TIMEOUT": "2s"}, "needs a LEASE_TIMEOUT of 3s or more"),
    ],
)
def test_what_does_not_fit_in_a_file_is_refused(
    tmp_path: Path, text: str, variables: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        read_plan(with_file(tmp_path, text, **variables))


@pytest.mark.parametrize("leaves", [True, False])
async def test_routes_to_one_kafka_keep_its_proofs(leaves: bool) -> None:
    variables = {"ROUTE_PREFIX": "shop.", "KAFKA_TRANSACTIONS": str(leaves).lower()}
    publisher = Destinations(Settings.from_env(KAFKA | variables)).publisher
    assert isinstance(publisher, ProofReader)
    assert isinstance(publisher, Proofs) == isinstance(publisher.twin(), Proofs) == leaves
    await publisher.close()


def test_it_is_off_by_default() -> None:
    assert not Settings.from_env({"STORAGE_URL": "postgres://user@host/shop"}).kafka_transactions
