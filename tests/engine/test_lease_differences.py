"""Relays with different LEASE_TIMEOUTs on one table: what they do to each other, what they say, how to change it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from relay.core.finding import Finding, Level
from relay.engine.relay import Relay
from relay.outbox.admin.outbox_check import check_storage
from relay.postgres.sql import TableName
from tests.engine.conftest import StartRelay
from tests.support.doubles.faulty_storage import FaultyOutbox, Truth
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually

SLOW = 400.0
"""Seconds without an answer from the broker, which is longer than any lease here."""


class Another:
    """Another relay on the table of ``one``, with its own LEASE_TIMEOUT and broker."""

    def __init__(self, one: VirtualRelay, lease_timeout: float) -> None:
        options = replace(one.options, lease_timeout=lease_timeout)
        truth = Truth(one.table, lease_timeout)
        storage = FaultyOutbox(truth, "another", one.seconds, retry=options.retry)
        self.telemetry = MemoryTelemetry()
        self.broker = MemoryPublisher()
        self.relay = Relay(storage, self.broker, self.telemetry, options, clock=one.seconds)
        self.task: asyncio.Task[None] = one.loop.create_task(self.relay.run())


def holding(engine: MakeEngine, count: int, lease_timeout: float) -> VirtualRelay:
    """A relay whose broker has not answered for that many events."""
    one = engine(lease_timeout=lease_timeout)
    one.broker.hold()
    one.insert(count)
    one.until(lambda: len(one.broker.held) == count)
    return one


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The lines about leases that were taken."""
    return [record for record in caplog.records if getattr(record, "action", "") == "lease_taken"]


@pytest.mark.parametrize("before", [60.0, 180.0])
@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_change_by_a_factor_of_two_takes_no_lease(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture, before: float, factor: float
) -> None:
    one = holding(engine, 5, before)
    another = Another(one, before * factor)
    another.broker.hold()
    one.insert(5)
    one.run(SLOW)
    assert len(one.broker.held) + len(another.broker.held) == 10
    one.do(one.broker.answer)
    one.do(another.broker.answer)
    one.run(1.0)
    assert one.counts() == {"DELIVERED": 10}
    assert {row.attempts for row in one.table.rows.values()} == {0}
    assert warnings(caplog) == []


@pytest.mark.parametrize("broker_answers", [False, True])
def test_a_shorter_one_takes_live_leases_and_the_holder_says_so(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture, broker_answers: bool
) -> None:
    one = holding(engine, 5, 180.0)
    another = Another(one, 15.0)
    one.run(30.0)
    assert {row.attempts for row in one.table.rows.values()} == {1}
    if broker_answers:  # the settler notices it; else the renewer does, a third of the lease after the claim
        one.do(one.broker.answer)
    one.run(40.0)
    [record] = warnings(caplog)
    assert "took 5 live leases" in record.getMessage()
    assert "LEASE_TIMEOUT is 3m" in record.getMessage()
    assert one.telemetry.counts["leases_lost"] == 5
    assert another.telemetry.counts["leases_lost"] == 0
    one.do(one.relay.stop)
    one.run(120.0)
    assert one.counts() == {"DELIVERED": 5}


def test_warnings_are_few_and_count_all(engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    one = engine(lease_timeout=180.0)
    for _ in range(40):
        one.broker.hold()
        one.insert(3)
        one.until(lambda: len(one.broker.held) == 3)
        for row in one.table.rows.values():
            if row.locked_by == "relay":
                row.locked_by = "another"
        one.do(one.broker.answer)
        one.run(1.0)
    assert 4 <= len(warnings(caplog)) <= 6
    assert sum(record.events for record in warnings(caplog)) >= 90  # type: ignore[attr-defined]


@pytest.mark.parametrize(("before", "after"), [(180.0, 5.0), (5.0, 180.0)])
def test_when_all_stop_before_the_first_starts_any_change_takes_no_lease(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture, before: float, after: float
) -> None:
    one = holding(engine, 5, before)
    one.do(one.relay.stop)
    one.until(one.task.done)
    assert one.counts() == {"PENDING": 5}
    Another(one, after)
    one.run(5.0)
    assert one.counts() == {"DELIVERED": 5}
    assert {row.attempts for row in one.table.rows.values()} == {0}
    assert warnings(caplog) == []


def test_a_lease_that_ran_out_is_no_other_relays_fault(engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    one = holding(engine, 3, 30.0)
    Another(one, 30.0)
    one.run(5.0)
    one.suspend(60.0)
    one.run(60.0)
    assert one.telemetry.counts["leases_lost"] == 3
    assert warnings(caplog) == []


async def lease_findings(url: str, lease_timeout: float) -> list[Finding]:
    """What ``check`` says about leases."""
    findings, _ = await asyncio.to_thread(check_storage, url, TableName(), lease_timeout, retention=86_400.0)
    return [finding for finding in findings if finding.subject == "lease"]


async def test_on_a_server_the_holder_and_check_report_a_shorter_one(
    outbox: Outbox, start: StartRelay, caplog: pytest.LogCaptureFixture
) -> None:
    broker = MemoryPublisher()
    broker.hold()
    await start(broker, relay_id="long", lease_timeout=60.0)
    outbox.insert([Row("t")] * 3)
    await eventually(lambda: len(broker.held) == 3)
    assert await lease_findings(outbox.relay_url, 60.0) == []
    await start(relay_id="short", lease_timeout=1.0)
    await eventually(lambda: outbox.rows("min(attempts)") == [(1,)])
    broker.answer()
    await eventually(lambda: warnings(caplog))
    assert "took 3 live leases" in warnings(caplog)[0].getMessage()
    [finding] = await lease_findings(outbox.relay_url, 60.0)
    assert finding.level is Level.WARNING
    assert finding.message.startswith("3 leases were reclaimed in the last 10m, the first at most ")
    assert await lease_findings(outbox.relay_url, 1.0) == []
    outbox.check_invariants()


@pytest.mark.session  # behind a pool a connection has the name of the client that used it last
async def test_on_a_server_check_reports_a_longer_one_while_its_holder_is_connected(
    outbox: Outbox, start: StartRelay
) -> None:
    broker = MemoryPublisher()
    broker.hold()
    await start(broker, relay_id="long", lease_timeout=600.0)
    outbox.insert([Row("t")] * 3)
    await eventually(lambda: len(broker.held) == 3)
    outbox.database.run("UPDATE openoutbox_events SET locked_at = locked_at - interval '2 minutes'")
    assert await lease_findings(outbox.reader_url, 600.0) == []
    [finding] = await lease_findings(outbox.reader_url, 30.0)  # of another role, which sees the names of connections
    assert finding.level is Level.WARNING
    assert finding.message.startswith("relay long is connected and holds 3 events up to 12")
    outbox.database.run("UPDATE openoutbox_events SET locked_by = 'gone'")
    [finding] = await lease_findings(outbox.reader_url, 180.0)
    assert finding.message.startswith("relay gone holds 3 events up to 12")
    assert await lease_findings(outbox.reader_url, 600.0) == []
    broker.answer()


async def test_a_message_without_a_time_says_nothing_about_leases(outbox: Outbox) -> None:
    outbox.insert([Row("t")])
    outbox.database.run("UPDATE openoutbox_events SET last_error = 'LEASE_EXPIRED: claimed or renewed at 2026-99-99'")
    assert await lease_findings(outbox.relay_url, 60.0) == []
