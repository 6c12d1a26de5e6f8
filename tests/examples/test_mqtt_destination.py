"""A destination of another package, installed beside the relay: the example, and packages that are broken."""

from __future__ import annotations

import json
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


ASKED = """
import json, sys
from relay.core.errors import ConfigError
from relay.settings.settings import Settings

def answer(env):
    try:
        return Settings.from_env(env).publisher_type
    except ConfigError as error:
        return str(error)

print(json.dumps([answer(env) for env in json.loads(sys.argv[1])]))
"""


def broken(folder: Path) -> str:
    """A PYTHONPATH with packages side by side whose entry points cannot be used."""
    for case, (name, value, _) in BROKEN.items():
        info = folder / f"{case}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {case}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[openoutbox.destinations]\n{name} = {value}\n")
    (folder / "broken_kinds.py").write_text(
        "from relay.brokers.kinds import DestinationKind\n"
        "TAKEN = DestinationKind(name='kafka', title='', server='', schemes=('k',), example='', build=print)\n"
        "OTHER = 'a word'\n"
    )
    (folder / "later_kind.py").write_text(
        "from relay.brokers.kinds import DestinationKind\n"
        "KIND = DestinationKind(name='later', title='', server='', schemes=('l',), example='', build=print, later=1)\n"
    )
    (folder / "exiting_kind.py").write_text("raise SystemExit('it needs Python 4')\n")
    return os.pathsep.join([str(folder), str(ROOT), str(ROOT / "cli")])


def test_broken_packages_are_named_and_stop_only_their_own_use(tmp_path: Path) -> None:
    good = {"STORAGE_URL": "postgres://h/d", "PUBLISHER_URL": "kafka://h:1"}
    strange = good | {"PUBLISHER_URL": "strange://h:1"}
    asked = [strange | ({"PUBLISHER_TYPE": name} if name != "kafka" else {}) for name, _, _ in BROKEN.values()]
    done = run(broken(tmp_path), "-c", ASKED, json.dumps([good, *asked, good]))
    assert done.returncode == 0, done.stderr
    first, *refused, last = json.loads(done.stdout)
    assert (first, last) == ("kafka", "kafka")
    for (name, value, reason), answer in zip(BROKEN.values(), refused, strict=True):
        assert f"{name} ({value}) cannot be used: {reason}" in answer
