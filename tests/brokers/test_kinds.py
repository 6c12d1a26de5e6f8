"""What every row of the kinds of destinations needs elsewhere in the project."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, fields

import pytest

from relay.app.publishers import options_of
from relay.brokers.kinds import KINDS, UNSENT, DestinationKind
from relay.settings.settings import Settings
from tests.support.paths import ROOT


def test_the_import_contract_of_brokers_names_every_kind() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = project["importlinter"]["contracts"]
    [named] = [one["modules"] for one in contracts if one["name"] == "A broker does not know another one"]
    folders = {kind.publisher.partition(":")[0].rpartition(".")[0] for kind in KINDS.values()}
    assert set(named) == folders | {place.partition(":")[0] for place in UNSENT.values()}


def test_messages_have_a_url_of_every_kind() -> None:
    page = (ROOT / "docs/reference/messages.md").read_text(encoding="utf-8")
    assert [kind.name for kind in KINDS.values() if f"{kind.schemes[0]}://" not in page] == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_each_option_of_a_kind_comes_from_a_variable(kind: DestinationKind) -> None:
    environ = {"STORAGE_URL": "postgres://u@h/d", "PUBLISHER_TYPE": kind.name, "PUBLISHER_URL": kind.example}
    settings = Settings.from_env(environ)
    options = options_of(settings)
    shared = {"kind", "message_format", "in_order", "allowed_types", "receipts", "url"}
    shared |= {"relay_id", "lease_timeout", "transactions_prefix"}  # which has the outbox' name where it is not set
    for one in fields(options):
        names = [f"{prefix.lower()}{one.name}" for prefix in kind.prefixes]
        known = [getattr(settings, name) for name in names if hasattr(settings, name)]
        assert one.name in shared or one.default is not MISSING or known == [getattr(options, one.name)], one.name
