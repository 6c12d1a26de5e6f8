"""A destination of another package, installed beside the relay: the example, and packages that are broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.localservers.process import free_port
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.paths import ROOT
from tests.support.waiting import patience, wait_until

pytestmark = [pytest.mark.packages, pytest.mark.xdist_group("mqtt")]

EXAMPLE = ROOT / "examples" / "mqtt_destination"
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="needs mosquitto: apt-get install mosquitto")

BROKEN = {
    "absent": ("absent", "nowhere.module:KIND", "No module named 'nowhere'"),
    "taken": ("kafka", "broken_kinds:TAKEN", "kafka is taken"),
    "other": ("other", "broken_kinds:OTHER", "it is a str, not a relay.brokers.kinds.DestinationKind"),
    "version": ("later", "later_kind:KIND", "DestinationKind.__init__() got an unexpected keyword argument 'later'"),
    "exit": ("exit", "exiting_kind:KIND", "it needs Python 4"),
}
"""By case: the entry point's name and value, and what is said of it."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH with the example as it is installed, beside this checkout."""
    folder = tmp_path_factory.mktemp("mqtt")
    uv = shutil.which("uv", path=sysconfig.get_path("scripts")) or "uv"
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder), str(EXAMPLE)]
    subprocess.run(command, check=True, timeout=patience())
    return os.pathsep.join([str(folder), str(ROOT), str(ROOT / "cli")])


def run(path: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **env},
        cwd=EXAMPLE / "tests",
        capture_output=True,
        text=True,
        timeout=patience(240),
        check=False,
    )


@needs_mosquitto
def test_it_passes_the_suite_of_every_destination(installed: str) -> None:
    patient = os.environ.get("TEST_PATIENCE", "1")
    done = run(
        installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini", ".", TEST_PATIENCE=patient
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert " passed" in done.stdout


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[str]:
    """The URL of a broker of the test's own."""
    port = free_port()
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    assert MOSQUITTO is not None
    with subprocess.Popen([MOSQUITTO, "-c", str(config)], stderr=subprocess.DEVNULL) as broker:
        yield f"mqtt://127.0.0.1:{port}"
        broker.kill()


@needs_mosquitto
def test_a_relay_delivers_to_it_and_check_examines_it(installed: str, outbox: Outbox, mosquitto: str) -> None:
    outbox.fill("orders/placed", 3)
    env = {"PUBLISHER_URL": mosquitto, "MQTT_TIMEOUT": "2s"}
    with Daemon(outbox.relay_url, env | {"PYTHONPATH": installed}) as daemon:
        wait_until(lambda: outbox.counts().get("DELIVERED") == 3, what="three deliveries")
        assert "is not a variable of the relay" not in daemon.log()
        check = run(installed, "-m", "relay_cli", "check", STORAGE_URL=outbox.relay_url, **env)
    assert "mqtt: connected and authenticated" in check.stdout


@pytest.fixture
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A PYTHONPATH with a package whose entry point cannot be used."""
    name, value, _ = BROKEN[request.param]
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[openoutbox.destinations]\n{name} = {value}\n")
    (tmp_path / "broken_kinds.py").write_text(
        "from relay.brokers.kinds import DestinationKind\n"
        "TAKEN = DestinationKind(name='kafka', title='', server='', schemes=('k',), example='', build=print)\n"
        "OTHER = 'a word'\n"
    )
    (tmp_path / "later_kind.py").write_text(
        "from relay.brokers.kinds import DestinationKind\n"
        "KIND = DestinationKind(name='later', title='', server='', schemes=('l',), example='', build=print, later=1)\n"
    )
    (tmp_path / "exiting_kind.py").write_text("raise SystemExit('it needs Python 4')\n")
    return os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "cli")])


@pytest.mark.parametrize("broken", BROKEN, indirect=True)
def test_a_broken_package_is_named_and_stops_only_its_own_use(broken: str, request: pytest.FixtureRequest) -> None:
    name, value, reason = BROKEN[request.node.callspec.params["broken"]]
    settings = "from relay.settings.settings import Settings; print(Settings.from_env({env}).publisher_type)"
    good = {"STORAGE_URL": "postgres://h/d", "PUBLISHER_URL": "kafka://h:1"}
    assert run(broken, "-c", settings.format(env=good)).stdout == "kafka\n"

    bad = good | ({"PUBLISHER_TYPE": name} if name != "kafka" else {}) | {"PUBLISHER_URL": "strange://h:1"}
    refused = run(broken, "-c", settings.format(env=bad))
    assert refused.returncode == 1
    assert f"{name} ({value}) cannot be used: {reason}" in refused.stderr
