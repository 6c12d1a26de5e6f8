"""The relay and its client: one version, which the relay asks for, and the former name of the client's package."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib

import pytest

import openoutbox
from relay import version
from tests.support.paths import ROOT
from tests.support.waiting import patience

HIDDEN = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "openoutbox":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
"""


def test_the_relay_and_its_client_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert openoutbox.__version__ == version.__version__
    assert f"openoutbox-client=={version.__version__}" in project["dependencies"]


def test_the_licence_is_the_same() -> None:
    assert (ROOT / "client/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("from relay.__main__ import main; sys.exit(main())", "relay"),
        ("from relay_cli.main import main; sys.argv.append('stats'); main()", "relay-cli"),
    ],
)
def test_a_relay_without_its_client_says_how_to_install_it(program: str, name: str) -> None:
    command = [sys.executable, "-c", HIDDEN + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"{name}: the Python package openoutbox-client is not installed, and this relay needs"
    )
    assert "pip install ./client" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_client_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openoutbox.version.__version__", "9.9.9")
    assert "is installed in version 9.9.9" in version.client_problem()


def test_the_former_name_works_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("relay.client", "relay.client.inbox"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match="import openoutbox"):
        former = importlib.import_module("relay.client")
    assert former.enqueue is openoutbox.enqueue
    assert importlib.import_module("relay.client.inbox").once is importlib.import_module("openoutbox.inbox").once
