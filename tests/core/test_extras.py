"""A missing library is a wrong setting, and the error names the command that installs its extra."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module

import pytest

from relay.brokers.kinds import KINDS
from relay.core.errors import ConfigError
from relay.core.extras import install_advice, requires
from relay.version import __version__
from tests.support.paths import ROOT


def test_a_missing_library_names_the_setting_and_both_commands() -> None:
    with pytest.raises(ConfigError) as raised, requires("kafka", "PUBLISHER_TYPE=kafka"):
        import_module("confluent_kafkaesque.producer")

    client, relay = (f"openoutbox_{name}-{__version__}-py3-none-any.whl" for name in ("client", "relay"))
    assert str(raised.value) == (
        "PUBLISHER_TYPE=kafka: the Python library confluent_kafkaesque is not installed. "
        "Install it from a checkout: pip install ./client '.[kafka]', "
        f"or with the wheels: pip install {client} '{relay}[kafka]'"
    )


def test_a_library_that_does_not_load_gives_its_reason() -> None:
    with pytest.raises(ConfigError, match=r"^X=1: the Python library lib cannot be loaded: libz\.so: no such file\. "):  # noqa: SIM117
        with requires("kafka", "X=1"):
            raise ImportError("libz.so: no such file", name="lib")


def test_a_missing_module_of_this_package_is_no_wrong_setting() -> None:
    with pytest.raises(ModuleNotFoundError), requires("kafka", "PUBLISHER_TYPE=kafka"):
        import_module("relay.brokers.kafkaesque")


def test_every_extra_that_the_code_names_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = [
        path.read_text(encoding="utf-8") for folder in ("relay", "cli") for path in (ROOT / folder).rglob("*.py")
    ]
    named = {name for text in sources for name in re.findall(r'(?:requires|install_advice)\("([^"]+)"', text)}
    brokers = {kind.extra for kind in KINDS.values()}
    assert "console" in named
    assert named | brokers <= project["optional-dependencies"].keys()


def test_the_advice_names_no_index() -> None:
    assert "openoutbox-relay" not in install_advice("kafka")
