"""What `make test` leaves to the soak, of the suite that each destination passes."""

from __future__ import annotations

import pytest

_LAWS = {
    "test_a_destination_in_trouble_holds_up_no_other",
    "test_a_part_in_trouble_holds_up_no_other_of_its_publisher",
}
_IN_ORDER = {"memory", "redis"}
"""Destinations that keep the laws in order per key in `make test`: order is the engine's."""
_IN_EVERY_TROUBLE = {"kafka", "redis", "several"}
"""Destinations that keep them in every trouble: they are the engine's, and the simulation has them, too. Each other
one hangs, which is the hardest: nothing tells that from an answer that is late."""
_PARTS = {("redis-cluster", "hangs"), ("redis-cluster", "refuses"), ("sqs", "hangs")}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the other laws."""
    for item in items:
        if (
            not isinstance(item, pytest.Function)
            or item.originalname not in _LAWS
            or item.path.parent.name != "brokers"
        ):
            continue
        if not _stays(item.originalname, item.callspec.params):
            item.add_marker(pytest.mark.soak)


def _stays(law: str, params: dict[str, object]) -> bool:
    if params["ordering"] == "key" and params["harness"] not in _IN_ORDER:
        return False
    if "part" in law:
        return (params["harness"], params["trouble"]) in _PARTS
    return params["trouble"] == "hangs" or params["harness"] in _IN_EVERY_TROUBLE
