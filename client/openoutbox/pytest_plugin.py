"""A fixture for pytest: ``pytest_plugins = ["openoutbox.pytest_plugin"]`` in conftest.py.

The project defines the fixture ``outbox_connection``, the connection that the tested code uses; ``outbox`` is
``openoutbox.testing.OutboxChecks`` for it.
"""

from __future__ import annotations

from typing import Any

import pytest

from openoutbox.testing import OutboxChecks


@pytest.fixture
def outbox(outbox_connection: Any) -> OutboxChecks:  # noqa: ANN401 - of any library
    """``outbox.assert_announced(type=…)``, ``outbox.refute_announced(…)`` and ``outbox.announced()``."""
    return OutboxChecks(outbox_connection)
