"""What every row of the kinds of destinations needs elsewhere in the project."""

from __future__ import annotations

import tomllib

from relay.brokers.kinds import KINDS, UNSENT
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
