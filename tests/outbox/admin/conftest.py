"""Prune and replay run twice: connected straight to the server, and through PgBouncer in transaction mode."""

from __future__ import annotations

import pytest

from tests.support.fixtures.outbox import Outbox, through


@pytest.fixture(params=["direct", "pooled"])
def outbox(outbox: Outbox, request: pytest.FixtureRequest) -> Outbox:
    """The outbox, with the way in that the test is run with."""
    return outbox if request.param == "direct" else through(outbox, request.getfixturevalue("pgbouncer"))
