"""The table of supported versions is what the tests and the packages say."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

from relay.localservers.postgres import DEFAULT_BUILD, NEWEST_BUILD
from tests.support.paths import ROOT
from tests.support.servers.helm import KUBERNETES


def rows() -> dict[str, tuple[str, str, str]]:
    """Oldest, newest and what tests them, by what they are of."""
    page = (ROOT / "docs/reference/stability.md").read_text(encoding="utf-8")
    table = page.partition("| of | oldest |")[2].partition("\n\n")[0]
    found = re.findall(r"\| (.+) \| (.+) \| (.*) \| (.+) \|", table)
    return {name: (oldest, newest, by) for name, oldest, newest, by in found}


def test_the_versions_of_python_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [one.rpartition(":: ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)]
    oldest, newest, _ = rows()["Python"]
    assert (f">={oldest}", newest) == (project["requires-python"], max(named, key=lambda one: int(one[2:])))


def test_the_versions_of_kubernetes_are_those_whose_schemas_the_chart_is_held_to() -> None:
    assert rows()["Kubernetes"][:2] == KUBERNETES


def test_the_versions_of_postgresql_are_those_of_the_tests() -> None:
    _, newest, by = rows()["PostgreSQL"]
    majors = [version(build).partition(".")[0] for build in (DEFAULT_BUILD, NEWEST_BUILD)]
    assert by.startswith("`make test` on {} and {};".format(*majors))
    assert newest == majors[1]
