"""One list of variables: the contract's, the settings', the help's and the documentation's."""

from __future__ import annotations

import re
from pathlib import Path

from relay.settings.__main__ import renewed
from relay.settings.describe import describe, help_text
from relay.settings.settings import Settings
from relay.settings.variables import NAMES
from tests.support.paths import ROOT

CONTRACT = Path(__file__).with_name("contract_variables.txt")


def contract_defaults() -> dict[str, str]:
    lines = CONTRACT.read_text(encoding="utf-8").splitlines()
    return {name: default for name, _, default in (line.partition(" ") for line in lines)}


def test_every_variable_of_the_contract_exists_with_its_default() -> None:
    rows = {row.variable: row.default.partition(" for kafka")[0] for row in describe()}
    expected = contract_defaults()
    assert {name: rows.get(name) for name in expected} == expected


def test_settings_hold_exactly_the_described_variables() -> None:
    fields = {name.upper() for name in Settings.model_fields} - {"OTEL", "OF_OTHERS", "WARNINGS", "IGNORED"}

    assert fields == {row.variable for row in describe()} - {"OTEL_*"} == set(NAMES)


def test_every_variable_is_described() -> None:
    assert all(row.meaning.endswith(".") and row.group and row.default for row in describe())


def test_the_help_names_every_variable_with_its_default() -> None:
    shown = dict(re.findall(r"^  ([A-Z_*]+)(?: \(.*?\))?, default: (.*)$", help_text(), re.MULTILINE))

    assert shown == {row.variable: row.default for row in describe()}


def test_the_documentation_is_up_to_date() -> None:
    text = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")

    assert text == renewed(text), "run: python -m relay.settings"


def test_the_environment_is_read_by_the_settings_alone() -> None:
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "relay").rglob("*.py"))
        if re.search(r"os\.environ|os\.getenv", path.read_text(encoding="utf-8"))
    ]

    patience = "relay/conformance/waiting.py"  # of tests, as TEST_PATIENCE says
    assert readers == [
        patience,
        *(f"relay/settings/{name}.py" for name in ("listening", "locations", "screen", "settings")),
    ]
