"""Random commands to the store and to a plain Python model of it; both must answer the same."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from relay.eventstore import ANY, EventStore, NewEvent, UnknownTenant, VersionConflict
from tests.support.fixtures.postgres import Database

T = TypeVar("T")
TENANTS = [uuid.UUID(int=n) for n in (1, 2, 3)]
STREAMS = [uuid.UUID(int=n) for n in (10, 11, 12)]
tenants, streams = st.sampled_from(TENANTS), st.sampled_from(STREAMS)
Key = tuple[uuid.UUID, uuid.UUID]


class Model:
    """What the store should hold: streams by tenant, and the order in which their events came."""

    def __init__(self) -> None:
        self.tenants: set[uuid.UUID] = set()
        self.log: list[tuple[Key, int, str]] = []

    def stream(self, tenant: uuid.UUID, stream: uuid.UUID) -> list[tuple[int, str]]:
        return [(version, name) for key, version, name in self.log if key == (tenant, stream)]

    def append(self, tenant: uuid.UUID, stream: uuid.UUID, names: list[str], expected: int) -> int | str:
        if tenant not in self.tenants:
            return "unknown"
        actual = len(self.stream(tenant, stream))
        if expected not in (ANY, actual):
            return f"conflict {actual}"
        self.log += [((tenant, stream), actual + n, name) for n, name in enumerate(names, 1)]
        return actual + len(names)

    def drop(self, tenant: uuid.UUID) -> None:
        self.tenants.discard(tenant)
        self.log = [entry for entry in self.log if entry[0][0] != tenant]


class StoreAgainstModel(RuleBasedStateMachine):
    """One run; each starts with an empty store. ``url``, ``positions`` and ``runner`` are set by the test."""

    url: str
    positions: str
    runner: asyncio.Runner
    store: EventStore

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def begin(self) -> None:
        self.model = Model()
        for tenant in self.run(self.store.list_tenants()):
            self.run(self.store.drop_tenant(tenant, confirm=tenant))
        self.last = 0

    @rule(tenant=tenants)
    def provision(self, tenant: uuid.UUID) -> None:
        self.run(self.store.provision_tenant(tenant))
        self.model.tenants.add(tenant)

    @rule(tenant=tenants)
    def drop(self, tenant: uuid.UUID) -> None:
        if tenant in self.model.tenants:
            self.run(self.store.drop_tenant(tenant, confirm=tenant))
            self.model.drop(tenant)

    @rule(
        tenant=tenants,
        stream=streams,
        names=st.lists(st.sampled_from("ABC"), min_size=1, max_size=3),
        expected=st.integers(-1, 6),
        right=st.booleans(),
    )
    def append(self, tenant: uuid.UUID, stream: uuid.UUID, names: list[str], expected: int, right: bool) -> None:
        if right:
            expected = len(self.model.stream(tenant, stream))
        try:
            new = [NewEvent(name) for name in names]
            answer: int | str = self.run(self.store.append(tenant, stream, new, expected)).version
        except VersionConflict as conflict:
            answer = f"conflict {conflict.actual}"
        except UnknownTenant:
            answer = "unknown"
        assert answer == self.model.append(tenant, stream, names, expected)

    @rule(tenant=tenants, stream=streams, first=st.integers(1, 5), limit=st.integers(1, 5), backward=st.booleans())
    def read_stream(self, tenant: uuid.UUID, stream: uuid.UUID, first: int, limit: int, backward: bool) -> None:
        events = self.run(self.store.read_stream(tenant, stream, first, limit=limit, backward=backward))
        expected = [entry for entry in self.model.stream(tenant, stream) if entry[0] >= first]
        expected = (expected[::-1] if backward else expected)[:limit]
        assert [(event.version, event.type) for event in events] == expected

    @rule(tenant=st.none() | tenants, name=st.none() | st.sampled_from("ABC"), limit=st.integers(1, 8))
    def read_all(self, tenant: uuid.UUID | None, name: str | None, limit: int) -> None:
        wanted = None if tenant is None else [tenant]
        events = self.run(self.store.read_all(0, limit, wanted, None if name is None else [name]))
        expected = [
            entry
            for entry in self.model.log
            if (tenant is None or entry[0][0] == tenant) and (name is None or entry[2] == name)
        ]
        assert [((e.tenant_id, e.stream_id), e.version, e.type) for e in events] == expected[:limit]

    @invariant()
    def positions_ascend(self) -> None:
        numbers = [event.sequence_num for event in self.run(self.store.read_all())]
        assert numbers == sorted(set(numbers))


def test_the_store_answers_as_the_model_does(database: Database, positions: str) -> None:
    with asyncio.Runner() as runner:
        StoreAgainstModel.runner = runner
        StoreAgainstModel.store = runner.run(EventStore.connect(database.url))
        try:
            runner.run(StoreAgainstModel.store.migrate(positions=positions))  # type: ignore[arg-type]
            run_state_machine_as_test(
                StoreAgainstModel,
                settings=settings(
                    max_examples=15,
                    stateful_step_count=25,
                    deadline=None,
                    derandomize=True,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(StoreAgainstModel.store.close())
