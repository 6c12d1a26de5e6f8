"""An outbox in a database of its own, and daemons that are gone after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.acceptance.daemon import Daemon
from tests.acceptance.outbox import Outbox
from tests.fixtures.postgres import Database

StartDaemon = Callable[..., Daemon]


@pytest.fixture
def outbox(database: Database) -> Outbox:
    """The contract's table, empty, in a database of this test's own."""
    return Outbox.create(database)


@pytest.fixture
def daemon(outbox: Outbox) -> Iterator[StartDaemon]:
    """``daemon(PUBLISHER_TYPE="null", …)`` starts a relay on the outbox; all are killed after the test."""
    with ExitStack() as stack:
        yield lambda **env: stack.enter_context(Daemon(outbox.url, env))
