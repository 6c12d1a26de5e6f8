"""Which process runs which test, and when: groups stay together, and the longest tests start first."""

from __future__ import annotations

import pytest

_LONG = ("tests/benchmarks", "tests/system", "tests/examples")
"""Folders whose tests start processes and wait for them."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by the declared timeout, then by folder; everything else keeps its order, so that modules stay together."""
    items.sort(key=lambda item: (-_limit(item), not item.nodeid.startswith(_LONG)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail when pytest-xdist does not run a group's tests in one process.

    pytest-xdist groups tests by the name at the end of their ids. Without that name a run passes as well, but each
    process starts the JVMs and the Kafka of every group: pytest 9.2 with pytest-xdist 3.8 (pytest-xdist issue 1386).
    """
    if not getattr(session.config.option, "loadgroup", False):
        return
    for item in session.items:
        if item.get_closest_marker("xdist_group") and "@" not in item.nodeid.rpartition("]")[2]:
            raise RuntimeError(
                f"{item.nodeid} has lost its group: this pytest-xdist does not group tests on "
                f"pytest {pytest.__version__}. Install the versions of pyproject.toml."
            )


def _limit(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0.0
