"""The image as an operator would run it: no privileges, nothing to write on, stopped by SIGTERM."""

from __future__ import annotations

import hashlib
import json
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from relay.localservers.process import free_port
from relay.version import __version__
from tests.support.fixtures.postgres import Database
from tests.support.paths import ROOT
from tests.support.servers.container import IMAGE, Engine, tools
from tests.support.servers.postgres_secured import SecuredPostgres
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(1800)

_SECOND = f"{IMAGE}-again"
_LOCKED_DOWN = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "host"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    tools()
    folder = tmp_path_factory.mktemp("container")
    engine = Engine(folder)
    engine.import_base()
    with ThreadPoolExecutor(2) as builds:  # side by side: most of a build is one process
        list(builds.map(engine.build, (IMAGE, _SECOND)))
    yield engine
    engine.podman("rm", "--all", "--force")
    # The layers are mounted: podman has to take them down before their folder can go.
    engine.podman("rmi", "--all", "--force")


class Running:
    """One container of the image."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name

    def exec(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside, whatever its exit code."""
        return self._engine.podman("exec", self.name, *command, check=False)

    def logs(self) -> str:
        """Everything on standard output and standard error so far."""
        done = self._engine.podman("logs", self.name)
        return done.stdout + done.stderr

    def stop(self) -> int:
        """SIGTERM, and the exit code; 137 is a process that had to be killed."""
        self._engine.podman("stop", "--time", "12", self.name)
        return int(self._engine.podman("wait", self.name).stdout)


@pytest.fixture
def relay(engine: Engine, database: Database) -> Running:
    """A relay at work on a migrated database."""
    storage = ["--env", f"STORAGE_URL={database.url}"]
    engine.podman("run", "--rm", *_LOCKED_DOWN, *storage, "--entrypoint", "relay-cli", IMAGE, "migrate")
    name = f"relay-{uuid.uuid4().hex[:8]}"
    settings = ["--env", "PUBLISHER_TYPE=stdout", "--env", f"SERVER_PORT=127.0.0.1:{free_port()}"]
    engine.podman("run", "--detach", "--name", name, *_LOCKED_DOWN, *storage, *settings, IMAGE)
    return Running(engine, name)


def test_a_relay_delivers_is_healthy_and_stops_on_sigterm(relay: Running, database: Database) -> None:
    event_id = str(uuid.uuid4())
    database.run(
        "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (%s, 'user.signup', '{}')", [event_id]
    )

    wait_until(lambda: event_id in relay.logs(), 60, "the event on standard output")
    wait_until(lambda: relay.exec("relay", "--healthcheck").returncode == 0, 60, "the health check")

    assert relay.exec("id", "-u").stdout.strip() == "10001"
    assert relay.exec("touch", "/opt/relay/x").returncode != 0
    assert relay.stop() == 0, relay.logs()
    lines = [json.loads(line) for line in relay.logs().splitlines() if line.startswith("{")]
    assert [line["action"] for line in lines if line.get("action") in ("stopping", "stopped")] == [
        "stopping",
        "stopped",
    ]


def test_the_health_check_fails_when_no_relay_listens(engine: Engine) -> None:
    port = f"SERVER_PORT=127.0.0.1:{free_port()}"

    assert engine.podman("run", "--rm", "--env", port, IMAGE, "--healthcheck", check=False).returncode == 1


def test_the_image_holds_both_programs_and_neither_pip_nor_the_sources(engine: Engine) -> None:
    def inside(*command: str) -> str:
        return engine.podman("run", "--rm", "--entrypoint", command[0], IMAGE, *command[1:]).stdout

    assert __version__ in inside("relay", "--version")
    assert __version__ in inside("relay-cli", "--version")
    assert "pip" not in inside("ls", "/opt/relay/bin").split()
    assert "src" not in inside("ls", "/").split()


def test_the_image_is_below_200_megabytes_and_has_a_version(engine: Engine) -> None:
    """The base of the tests is not the Dockerfile's, whose size differs: the relay's own part is bounded, too."""
    megabytes = engine.image_megabytes()
    with engine.files() as root:
        files = [path for path in (root / "opt" / "relay").rglob("*") if path.is_file() and not path.is_symlink()]
        part = sum(path.stat().st_size for path in files) / 1e6
    print(f"\nimage: {megabytes:.0f} MB, of which the base has {megabytes - part:.0f} and the relay {part:.1f}")
    assert megabytes < 200
    assert part < 82
    labels = engine.labels()
    assert labels["org.opencontainers.image.version"] == __version__
    assert "org.opencontainers.image.source" in labels


def test_the_image_can_use_every_extra_that_it_promises(engine: Engine) -> None:
    """Libraries are stripped of symbols, so that each is loaded once."""
    modules = (
        "confluent_kafka, nats, nkeys, redis, hiredis, fastapi, opentelemetry.sdk, clickhouse_connect, uvloop, authlib"
    )
    engine.podman("run", "--rm", *_LOCKED_DOWN, "--entrypoint", "python", IMAGE, "-c", f"import {modules}")


def test_the_console_shows_the_outbox_to_those_who_log_in(engine: Engine, database: Database) -> None:
    storage = ["--env", f"STORAGE_URL={database.url}"]
    extensions = ["--with=console", "--with=fleet", "--with=pause"]
    engine.podman("run", "--rm", *_LOCKED_DOWN, *storage, "--entrypoint", "relay-cli", IMAGE, "migrate", *extensions)
    port = free_port()
    console = [*_LOCKED_DOWN, *storage, "--env", f"CONSOLE_PORT=:{port}", "--entrypoint", "relay-cli"]

    refused = engine.podman("run", "--rm", *console, IMAGE, "console", check=False)
    assert refused.returncode != 0
    assert "no login is configured for the console" in refused.stdout + refused.stderr

    name = f"console-{uuid.uuid4().hex[:8]}"
    tokens = ["--env", "CONSOLE_TOKENS_FILE=/etc/openoutbox/tokens"]
    tokens += ["--volume", f"{ROOT / 'deploy' / 'console'}:/etc/openoutbox:ro"]
    health = ["--env", f"SERVER_PORT=127.0.0.1:{port}"]
    engine.podman("run", "--detach", "--name", name, *tokens, *health, *console, IMAGE, "console")
    running = Running(engine, name)
    wait_until(lambda: running.exec("relay", "--healthcheck").returncode == 0, 60, "the health check")

    token = (ROOT / "deploy" / "console" / "tokens").read_text().split("is ", 1)[1].split(".", 1)[0]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Accept": "text/html"}) as browser:
        assert browser.get("/").headers["location"].startswith("/login")
        login = browser.get("/login").text
        assert "Log in" in login
        style = login.split('rel="stylesheet" href="', 1)[1].split('"', 1)[0]
        for path in ("/", "/events", "/dead", "/fleet", style, "/api/v1/stats"):
            assert browser.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == 200, path
    assert running.stop() == 0, running.logs()


@pytest.mark.postgres
def test_the_database_is_reached_over_tls_with_the_openssl_of_the_base(engine: Engine, tmp_path: Path) -> None:
    """Its libpq came with another one, which the build leaves out."""
    with SecuredPostgres(tmp_path) as secured:
        for identities, works in ((secured.identities, True), (secured.strangers, False)):
            storage = ["--env", f"STORAGE_URL={secured.url(sslrootcert='/ca.pem')}"]
            storage += ["--volume", f"{identities.ca_file}:/ca.pem:ro"]
            done = engine.podman(
                "run", "--rm", *_LOCKED_DOWN, *storage, "--entrypoint", "relay-cli", IMAGE, "stats", check=False
            )
            assert (done.returncode == 0) is works, done.stderr
            assert ("certificate verify failed" in done.stderr) is not works


def test_two_builds_give_the_same_files(engine: Engine) -> None:
    first, second = contents(engine, IMAGE), contents(engine, _SECOND)

    assert len(first) > 2000
    assert {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)} == set()


def contents(engine: Engine, image: str) -> dict[str, tuple[object, ...]]:
    """Mode, owner, time and digest of every file below /opt/relay: all that the build adds to its base."""
    with engine.files(image) as root:
        files: dict[str, tuple[object, ...]] = {}
        for path in (root / "opt" / "relay").rglob("*"):
            status = path.lstat()
            if path.is_symlink():
                content = str(path.readlink())
            else:
                content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            files[str(path.relative_to(root))] = (status.st_mode, status.st_uid, status.st_mtime, content)
        return files
