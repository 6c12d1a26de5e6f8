"""What a reader of /stats gets while the backlog is slow to read."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.fixtures.engine import MakeEngine


def test_a_read_that_is_late_is_said_once_in_a_while_and_the_last_sample_is_shown(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    one = engine()
    one.run(1.0)
    backlog, reads = one.relay.backlog, []
    before = backlog.latest
    assert before is not None
    one.do(lambda: reads.append(asyncio.ensure_future(backlog.refresh())))
    one.run(1.0)
    assert not said(caplog)

    async def never() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(one.storage, "backlog", never)
    for seconds, times in ((1.0, 1), (1.0, 1), (10.0, 1), (1.0, 2)):
        one.do(lambda: reads.append(asyncio.ensure_future(backlog.refresh())))
        one.run(seconds)
        assert reads[-1].done()
        assert len(said(caplog)) == times
    assert backlog.latest == before


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if getattr(record, "action", "") == "stats_slow"]
