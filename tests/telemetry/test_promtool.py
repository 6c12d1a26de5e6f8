"""Prometheus' own linter reads the text that the server serves."""

from __future__ import annotations

import subprocess

import pytest

from relay.telemetry.prometheus import PrometheusTelemetry
from tests.support.servers.promtool import promtool
from tests.support.waiting import patience

pytestmark = pytest.mark.prometheus

ACCEPTED = 'openoutbox_backlog_pending_count non-histogram and non-summary metrics should not have "_count" suffix'


def findings(text: bytes) -> list[str]:
    done = subprocess.run(
        [promtool(), "check", "metrics"], input=text, capture_output=True, timeout=patience(), check=False
    )
    return (done.stdout + done.stderr).decode().splitlines()


def test_the_linter_finds_only_the_name_that_the_contract_asks_for() -> None:
    telemetry = PrometheusTelemetry("relay-1")
    telemetry.claimed(3)
    telemetry.acknowledged([0.1, 0.2], [0.3, 0.4])

    assert findings(telemetry.exposition()[0]) == [ACCEPTED]


def test_the_linter_would_find_more() -> None:
    assert len(findings(b"# HELP relay_things_total x\n# TYPE relay_things_total gauge\nrelay_things_total 1\n")) == 1
