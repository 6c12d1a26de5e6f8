"""The pytest plugin of the suite: ``pytest_plugins = ["relay.conformance.plugin"]`` in a conftest.py.

Needs pytest-asyncio in its mode ``auto``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

pytest.register_assert_rewrite("relay.conformance.suite", "relay.conformance.laws", "relay.conformance.harness")

from relay.conformance.harness import Harness  # noqa: E402 -- after its assertions are set to be rewritten
from relay.core.ports import Publisher  # noqa: E402


@pytest.fixture
async def publisher(harness: Harness) -> AsyncIterator[Publisher]:
    """An open publisher of the harness, closed at the end."""
    instance = harness.publisher()
    await instance.open()
    yield instance
    await instance.close()
