"""Daemons on the test's outbox that are gone after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.acceptance.daemon import Daemon
from tests.fixtures.outbox import Outbox

StartDaemon = Callable[..., Daemon]


@pytest.fixture
def daemon(outbox: Outbox) -> Iterator[StartDaemon]:
    """``daemon(PUBLISHER_TYPE="null", …)`` starts a relay on the outbox; all are killed after the test."""
    with ExitStack() as stack:
        yield lambda **env: stack.enter_context(Daemon(outbox.relay_url, env))
