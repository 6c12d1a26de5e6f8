"""The wheel as a user gets it: built, installed into an empty environment, and run away from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import pytest

from hatch_build import full_version
from relay.localservers.process import free_port
from relay.postgres.sql import sql_files
from relay.version import __version__
from tests.support.fixtures.postgres import Database
from tests.support.paths import ROOT
from tests.support.waiting import patience, wait_until

# One process builds and installs once for all of these tests.
pytestmark = [pytest.mark.packages, pytest.mark.xdist_group("wheel")]


@dataclass(frozen=True)
class Installed:
    """The wheel, built from the source archive, and an environment that has nothing but it and what it depends on."""

    wheel: Path
    sdist: Path
    client_sdist: Path
    bin: Path
    elsewhere: Path

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run one of the environment's programs in a folder that is not the checkout."""
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.elsewhere,
            env={"PATH": os.environ["PATH"], **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    uv = shutil.which("uv", path=sysconfig.get_path("scripts")) or "uv"
    work = tmp_path_factory.mktemp("wheel")
    for command in (
        [uv, "build", "--quiet", "--out-dir", str(work), str(ROOT)],
        [uv, "build", "--quiet", "--out-dir", str(work / "client"), str(ROOT / "client")],
        [uv, "venv", "--quiet", "--python", sys.executable, str(work / "venv")],
    ):
        subprocess.run(command, check=True, cwd=work)
    (wheel,), (sdist,), (client,) = work.glob("*.whl"), work.glob("*.tar.gz"), work.glob("client/*.whl")
    (client_sdist,) = work.glob("client/*.tar.gz")
    python = work / "venv" / "bin" / "python"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", str(python), str(client), str(wheel)], check=True, cwd=work
    )
    return Installed(wheel, sdist, client_sdist, python.parent, work)


def test_the_wheel_holds_the_packages_and_every_statement(installed: Installed) -> None:
    names = {name for name in zipfile.ZipFile(installed.wheel).namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} >= {
        "relay",
        "relay_cli",
        "pyspark_openoutbox.py",
        "pyspark_openoutbox_eventstore.py",
        "pyspark_openoutbox_deliverylog.py",
    }
    assert not [name for name in names if name.startswith(("tests/", "sql/", "cli/", "benchmarks/"))]
    assert "relay/py.typed" in names
    ours = {f"relay/sql/{path.relative_to(ROOT / 'sql')}" for path in (ROOT / "sql").rglob("*.sql")}
    assert ours
    assert {name for name in names if name.endswith(".sql")} == ours


def test_the_source_archive_holds_what_the_wheel_is_built_from_and_no_more(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name.partition("/")[0] for name in names} == {
        *(
            "hatch_build.py",
            "relay",
            "cli",
            "sql",
            "pyproject.toml",
            "README.md",
            "LICENSE",
            "CHANGELOG.md",
            "PKG-INFO",
            ".gitignore",
        ),
        *("pyspark_openoutbox.py", "pyspark_openoutbox_eventstore.py", "pyspark_openoutbox_deliverylog.py"),
    }
    assert not [name for name in names if "/test" in name or "__pycache__" in name]


@pytest.mark.parametrize(
    ("name", "pins"),
    [
        # uv has built the client's wheel from its archive already, for every test here.
        pytest.param("openoutbox-client", [], marks=pytest.mark.soak),
        ("openoutbox-relay", [f"openoutbox-client=={__version__}"]),
    ],
)
def test_a_source_archive_builds_alone(installed: Installed, tmp_path: Path, name: str, pins: list[str]) -> None:
    """By an ordinary front end, in a folder that has nothing but it."""
    sdist = installed.client_sdist if name == "openoutbox-client" else installed.sdist
    alone = shutil.copy(sdist, tmp_path)
    wheel = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel", "--no-deps", alone]
    done = subprocess.run(wheel, cwd=tmp_path, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 0, done.stderr
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        (path,) = (member for member in archive.namelist() if member.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(path).decode())
    assert (metadata["Name"], metadata["Version"]) == (name, __version__)
    assert [one for one in metadata.get_all("Requires-Dist", []) if one.startswith("openoutbox-client")] == pins


def test_an_index_would_accept_the_metadata(installed: Installed) -> None:
    command = [
        sys.executable,
        "-m",
        "twine",
        "--no-color",
        "check",
        "--strict",
        str(installed.wheel),
        str(installed.sdist),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_base_installation_is_below_60_megabytes_and_has_no_brokers_client(installed: Installed) -> None:
    (packages,) = (installed.bin.parent / "lib").glob("python3.*/site-packages")
    # Compiled files belong to the interpreter that has run, not to the installation.
    files = [path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    print(f"\nbase installation: {megabytes:.1f} MB")
    assert 20 < megabytes < 60
    absent = {"confluent_kafka", "nats", "nkeys", "nacl", "cffi", "redis", "hiredis", "fastapi", "pyspark", "chdb"}
    assert {path.name for path in packages.iterdir()} & absent == set()


def test_statements_come_from_the_checkout_here_and_from_the_package_there(installed: Installed) -> None:
    here = sql_files()
    done = installed.run("python", "-c", "from relay.postgres.sql import sql_files; print(*sql_files())")
    assert done.stdout.split() == here, done.stderr


@pytest.mark.parametrize("program", ["relay", "relay-cli"])
def test_the_programs_explain_themselves(installed: Installed, program: str) -> None:
    shown = installed.run(program, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "usage" in shown.stdout.lower()


@pytest.mark.parametrize("program", ["relay", "relay-cli"])
def test_the_programs_know_their_version(installed: Installed, program: str) -> None:
    shown = installed.run(program, "--version")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split()[-1] == full_version(ROOT)


def test_an_event_comes_out_of_the_installed_relay(installed: Installed, database: Database) -> None:
    migrated = installed.run("relay-cli", "migrate", "--storage-url", database.url)
    assert migrated.returncode == 0, migrated.stderr
    event_id = str(uuid.uuid4())
    database.run(
        "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (%s, 'user.signup', '{}')", [event_id]
    )
    out = installed.elsewhere / "out"
    env = {"STORAGE_URL": database.url, "PUBLISHER_TYPE": "stdout", "SERVER_PORT": f"127.0.0.1:{free_port()}"}
    with out.open("wb") as stdout, (installed.elsewhere / "log").open("wb") as log:
        relay = subprocess.Popen(
            [installed.bin / "relay"],
            cwd=installed.elsewhere,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=log,
        )
    try:
        wait_until(lambda: relay.poll() is not None or event_id in out.read_text(), what="the event on standard output")
        relay.send_signal(signal.SIGTERM)
        assert relay.wait(patience()) == 0, (installed.elsewhere / "log").read_text()
    finally:
        relay.kill()
        relay.wait()
    (line,) = out.read_text().splitlines()
    assert event_id in json.loads(line).values()
