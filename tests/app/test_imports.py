"""What a command imports, and so what its start costs: each command pays for its own room alone.

Each case runs in a process of its own, since this one has imported everything.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import patience

BROKERS = {"confluent_kafka", "nats", "redis", "hiredis", "pamqp", "cryptography", "aiobotocore", "botocore", "aiohttp"}
EXTRAS = {"fastapi", "opentelemetry", "clickhouse_connect", "chdb", "pandas", "numpy", "matplotlib", "pyspark"}
LIBRARIES = {"pydantic", "psycopg", "structlog", "prometheus_client", "starlette", "uvicorn", "uvloop", "typer", "rich"}
ROOMS = {"relay.engine", "relay.outbox", "relay.brokers", "relay.eventstore", "relay.deliverylog", "relay.spark"}
DATABASE = {"psycopg", "pydantic"}
SLOW_STANDARD_LIBRARY = {
    "asyncio",
    "logging",
    "http.client",
    "email",
    "ssl",
    "dataclasses",
    "inspect",
    "urllib.request",
}

RELAY = "from relay.__main__ import main; main()"
RELAY_EXIT = "import sys\nfrom relay.__main__ import main\nsys.exit(main())"
CLI = "from relay_cli.main import main; main()"
DAEMON = """
from relay.app import run
from relay.app.run import build_delivery_log
from relay.app.publishers import build_publisher
from relay.settings.settings import Settings
environ = dict(STORAGE_URL="postgres://u@127.0.0.1:1/d", PUBLISHER_TYPE={!r}, PUBLISHER_URL={!r})
settings = Settings.from_env({{name: value for name, value in environ.items() if value}})
build_publisher(settings), build_delivery_log(settings)
"""


BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
"""Makes libraries as absent as in an environment without their extra."""
CLIENTS = {
    "kafka": {"confluent_kafka"},
    "nats": {"nats", "nkeys"},
    "redis": {"redis", "hiredis"},
    "rabbitmq": {"pamqp"},
    "http": {"cryptography"},
    "sqs": {"aiobotocore", "botocore", "aiohttp"},
}
URLS = {
    "kafka": "127.0.0.1:1",
    "nats": "nats://127.0.0.1:1",
    "redis": "redis://127.0.0.1:1",
    "rabbitmq": "amqp://127.0.0.1:1",
    "http": "http://127.0.0.1:1",
    "sqs": "sqs://eu-central-1",
}


def imported(program: str, *arguments: str) -> set[str]:
    """The modules that a process has imported at its end, in whichever way it ends."""
    run = f"try:\n    exec({program!r})\nexcept SystemExit:\n    pass\n"
    report = "import json, sys\nsys.stderr.write('\\n' + json.dumps(sorted(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", run + report, *arguments],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}", "STORAGE_URL": "postgres://u@127.0.0.1:1/d", "SERVER_PORT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.mark.parametrize("argument", ["--version", "--healthcheck"])
def test_version_and_health_check_import_no_library(argument: str) -> None:
    """A container engine runs the health check every few seconds: each of these costs 5 to 200 ms of processor time."""
    modules = imported(RELAY, argument)
    assert modules & (LIBRARIES | BROKERS | EXTRAS | ROOMS | SLOW_STANDARD_LIBRARY) == set()


def test_the_daemons_help_connects_to_nothing() -> None:
    modules = imported(RELAY, "--help")
    assert modules & (BROKERS | EXTRAS | ROOMS | (LIBRARIES - {"pydantic"})) == {"relay.brokers"}
    assert {name for name in modules if name.startswith("relay.brokers.")} == {"relay.brokers.kinds"}


@pytest.mark.parametrize(
    ("publisher", "url", "libraries"),
    [
        ("null", "", set()),
        ("stdout", "", set()),
        ("kafka", "127.0.0.1:1", {"confluent_kafka"}),
        ("nats", "nats://127.0.0.1:1", {"nats"}),
        ("redis", "redis://127.0.0.1:1", {"redis", "hiredis"}),
        ("rabbitmq", "amqp://127.0.0.1:1", {"pamqp"}),
        ("http", "http://127.0.0.1:1", {"cryptography"}),
        ("sqs", "sqs://eu-central-1", {"aiobotocore", "botocore", "aiohttp"}),
        ("sns", "sns://eu-central-1", {"aiobotocore", "botocore", "aiohttp"}),
    ],
)
def test_the_daemon_needs_the_chosen_brokers_library_alone(publisher: str, url: str, libraries: set[str]) -> None:
    """No other client and no extra is installed there: with ``[kafka]`` alone everything is built that connects."""
    absent = (BROKERS | EXTRAS | {"nkeys"}) - libraries - ({"nkeys"} if publisher == "nats" else set())
    modules = imported(BLOCK.format(absent) + DAEMON.format(publisher, url))
    assert modules & BROKERS == libraries
    assert modules & (EXTRAS | {"typer", "relay.deliverylog", "relay.eventstore", "relay.spark"}) == set()


def ended_without(libraries: set[str], program: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A process in which ``libraries`` are not installed."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(libraries) + program, *arguments],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}", "STORAGE_URL": "postgres://u@127.0.0.1:1/d", **env},
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )


@pytest.mark.parametrize(
    ("publisher", "library"),
    [
        ("kafka", "confluent_kafka"),
        ("nats", "nkeys"),
        ("redis", "hiredis"),
        ("rabbitmq", "pamqp"),
        ("http", "cryptography"),
    ],
)
def test_a_missing_client_ends_the_daemon_with_the_command_that_installs_it(publisher: str, library: str) -> None:
    ended = ended_without({library}, RELAY_EXIT, PUBLISHER_TYPE=publisher, PUBLISHER_URL=URLS[publisher])
    assert ended.returncode == 2, ended.stderr
    message = f"PUBLISHER_TYPE={publisher}: the Python library {library} is not installed."
    assert message in ended.stderr
    assert f"pip install ./client '.[{publisher}]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_replay_names_the_extra_that_reads_the_window_of_nats() -> None:
    window = "from relay.settings.settings import Settings\nfrom relay.app.duplicates import duplicate_window\n"
    settings = {"STORAGE_URL": "postgres://u@127.0.0.1:1/d", "PUBLISHER_TYPE": "nats", "PUBLISHER_URL": URLS["nats"]}
    ended = ended_without({"nats"}, f"{window}duplicate_window(Settings.from_env({settings!r}))")
    assert "ConfigError: PUBLISHER_TYPE=nats: the Python library nats is not installed." in ended.stderr


def test_the_command_lines_help_imports_no_room() -> None:
    modules = imported(CLI, "--help")
    assert modules & (DATABASE | BROKERS | EXTRAS | ROOMS | {"rich", "asyncio", "ssl", "relay.settings"}) == set()


def test_the_command_lines_version_imports_nothing() -> None:
    assert imported(CLI, "--version") & (LIBRARIES | EXTRAS | ROOMS | SLOW_STANDARD_LIBRARY) == set()


@pytest.mark.parametrize(
    ("arguments", "rooms"),
    [
        (["stats"], {"relay.outbox"}),
        (["list"], {"relay.outbox"}),
        (["prune", "--dry-run"], {"relay.outbox"}),
        (["replay", "--status", "dead", "--yes"], {"relay.outbox"}),
        (["migrate", "--dry-run"], {"relay.outbox"}),
        (["tenant", "list"], {"relay.eventstore"}),
        (["log", "events", "--delivery-log-url", "postgres://u@127.0.0.1:1/d"], {"relay.deliverylog"}),
        (["spark", "archive", "--help"], {"relay.spark"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_command_imports_its_own_room_alone(arguments: list[str], rooms: set[str]) -> None:
    """The database refuses the connection, so each command has come to use its room."""
    modules = imported(CLI, *arguments)
    assert modules & ROOMS == rooms
    assert modules & ({"pydantic", "rich", "relay.settings.settings"} | BROKERS) == set()
