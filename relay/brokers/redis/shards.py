"""A node of a cluster that does not answer, while others do: its events wait, and those of the others go on.

What comes back from a node without its answer (it is unreachable, cut the connection, or was silent) is undecided until
all nodes in use were asked. A node that does not answer then is forgotten, so that another one names who has its slots
now, and its events are ``Away``: they use no attempt, and one claim tries their types again now and then. Where the
node itself answers, or none does, an event has the outcome that it has with a single server, and the engine decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from relay.brokers.server_address import ServerAddress
from relay.core.event import OutboxEvent
from relay.core.outcome import Away, ConnectionCut, Outcome, OutcomeSink, Resolution, TimedOut, Unreachable

Answers = Mapping[ServerAddress | None, str]
"""Why a node does not answer, empty for one that does; None is the server that a client starts with."""

Ask = Callable[[Collection[ServerAddress | None]], Coroutine[Any, Any, Answers]]
"""Asks these nodes and all others in use. Raises nothing."""

_Undecided = tuple[OutboxEvent, Outcome, OutcomeSink, ServerAddress | None]


class Shards:
    """Stands between the sessions with nodes and the sinks of the events."""

    def __init__(
        self, several: Callable[[], bool], node_of: Callable[[OutboxEvent], ServerAddress | None], ask: Ask
    ) -> None:
        """``several``: whether more than one node is in use. A single server's outcomes are passed on at once."""
        self._several = several
        self._node_of = node_of
        self._ask = ask
        self._undecided: list[_Undecided] = []
        self._asked: list[_Undecided] = []
        """What the nodes are being asked for."""
        self._deciding: asyncio.Task[None] | None = None

    def before(self, sink: OutcomeSink) -> OutcomeSink:
        """A sink for the sessions with nodes, which gives ``sink`` what is decided."""
        return partial(self._take, sink)

    async def abandon(self, lost: Unreachable) -> None:
        """Decide everything as ``lost``, once no session is in use any more."""
        if self._deciding is not None:
            self._deciding.cancel()
            await asyncio.wait({self._deciding})
        undecided, self._asked, self._undecided = self._asked + self._undecided, [], []
        for event, _, sink, _ in undecided:
            sink([(event, lost)])

    def _take(self, sink: OutcomeSink, resolutions: Sequence[Resolution]) -> None:
        if not self._several():
            sink(resolutions)
            return
        passed: list[Resolution] = []
        for event, outcome in resolutions:
            if isinstance(outcome, Unreachable | ConnectionCut | TimedOut):
                self._undecided.append((event, outcome, sink, self._node_of(event)))
            else:
                passed.append((event, outcome))
        if passed:
            sink(passed)
        if self._undecided and self._deciding is None:
            self._deciding = asyncio.get_running_loop().create_task(self._decide())

    async def _decide(self) -> None:
        """Ask the nodes until nothing is undecided; the body of a task."""
        try:
            while self._undecided:
                self._asked, self._undecided = self._undecided, []
                answers = await self._ask({node for *_, node in self._asked})
                asked, self._asked = self._asked, []
                some_answer = not all(answers.values())
                for event, outcome, sink, node in asked:
                    silent = answers.get(node, "")
                    sink([(event, Away(silent) if silent and some_answer else outcome)])
        finally:
            self._deciding = None
