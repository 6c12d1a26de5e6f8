"""What `make test` leaves to the soak, of the suite that each destination passes."""

from __future__ import annotations

import pytest

_LAWS = {
    "test_a_destination_in_trouble_holds_up_no_other",
    "test_a_part_in_trouble_holds_up_no_other_of_its_publisher",
}
_IN_ORDER = {"memory", "http", "redis", "redis-cluster"}
"""Destinations that keep them in order per key in `make test`: order is the engine's."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these laws in order per key of all other destinations."""
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname in _LAWS and item.path.parent.name == "brokers":
            params = item.callspec.params
            if params["ordering"] == "key" and params["harness"] not in _IN_ORDER:
                item.add_marker(pytest.mark.soak)
