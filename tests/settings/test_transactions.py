"""KAFKA_TRANSACTIONS: refused where it would not keep its promise, and what its names follow from."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.app.destinations import Destinations, read_plan
from relay.app.publishers import options_of
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


def test_one_destination_of_several_cannot_have_it(tmp_path: Path) -> None:
    file = tmp_path / "destinations.toml"
    file.write_text('[main]\nurl = "kafka://host:9092"\nkafka_transactions = true\n')
    settings = Settings.from_env({"STORAGE_URL": KAFKA["STORAGE_URL"], "DESTINATIONS_FILE": str(file)})
    with pytest.raises(ConfigError, match="destination main: kafka_transactions: it is for one Kafka alone"):
        read_plan(settings)


@pytest.mark.parametrize("leaves", [True, False])
async def test_routes_to_one_kafka_keep_its_proofs(leaves: bool) -> None:
    variables = {"ROUTE_PREFIX": "shop.", "KAFKA_TRANSACTIONS": str(leaves).lower()}
    publisher = Destinations(Settings.from_env(KAFKA | variables)).publisher
    assert isinstance(publisher, ProofReader)
    assert isinstance(publisher, Proofs) == isinstance(publisher.twin(), Proofs) == leaves
    await publisher.close()


def test_it_is_off_by_default() -> None:
    assert not Settings.from_env({"STORAGE_URL": "postgres://user@host/shop"}).kafka_transactions
