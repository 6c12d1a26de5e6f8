"""The order in which a run starts its tests: the longest first, so that no worker ends alone with a long one."""

from __future__ import annotations

import pytest

_LONG = ("tests/benchmarks", "tests/system", "tests/examples")
"""Folders whose tests start processes and wait for what they do."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by the declared timeout, then by folder; everything else keeps its order, so that modules stay together."""
    items.sort(key=lambda item: (-_limit(item), not item.nodeid.startswith(_LONG)))


def _limit(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0.0
