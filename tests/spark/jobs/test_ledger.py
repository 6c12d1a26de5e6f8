"""The runs of an archive by the files of its ledger, in whatever order the files of dead clients appear."""

from __future__ import annotations

import json

import pytest

from relay.spark.jobs.archive.ledger import (
    BEGUN,
    DISCARDED,
    Closed,
    Manifest,
    RunLedger,
    closed_name,
)
from relay.spark.jobs.errors import ArchiveError

FIRST, SECOND, THIRD = "20260131T020000Z-5f0c2a11", "20260201T020000Z-aa0c2a11", "20260201T020001Z-0b0c2a11"
MANIFEST = Manifest(FIRST, 0, "0", "2026-01-24T02:00:00+00:00", ("DEAD",), ())


def ledger(**files: str) -> RunLedger:
    """A ledger of FIRST's files by their kinds."""
    return RunLedger("/data/outbox/_runs", {f"{FIRST}.{kind.replace('_', '.')}": text for kind, text in files.items()})


def test_the_files_of_a_run_differ_in_their_names() -> None:
    closed = Closed(2, FIRST)
    files = {f"{FIRST}.json": MANIFEST.text(), f"{FIRST}.{BEGUN}": FIRST, closed_name(FIRST, FIRST): closed.text()}
    files[f"{SECOND}.{BEGUN}"] = SECOND
    runs = RunLedger("/data/outbox/_runs", files)
    assert (runs.runs(), runs.open_runs(), runs.strays()) == ([FIRST], [], [SECOND])
    assert runs.manifest(FIRST) == MANIFEST
    assert runs.closed(FIRST) == closed


def test_a_run_stays_discarded_when_its_manifest_appears_later() -> None:
    late = ledger(begun=FIRST, discarded=FIRST, json=MANIFEST.text())
    assert (late.runs(), late.open_runs(), late.strays()) == ([], [], [])
    with pytest.raises(ArchiveError, match=f"another run has discarded run {FIRST}"):
        late.manifest(FIRST)
    assert f"{FIRST}.{DISCARDED}" in late.files


def test_of_several_closings_that_of_the_latest_run_counts() -> None:
    """The closing by the run itself, or by a recovering run that was killed, may appear after a later one."""
    files = {closed_name(FIRST, by): Closed(left, by).text() for left, by in ((3, FIRST), (1, THIRD), (2, SECOND))}
    runs = RunLedger("/data/outbox/_runs", {f"{FIRST}.json": MANIFEST.text(), **files})
    assert runs.closed(FIRST) == Closed(1, THIRD)
    assert runs.open_runs() == []


def test_earlier_releases_wrote_the_manifest_and_the_closing_only() -> None:
    manifest = json.dumps(
        {**json.loads(MANIFEST.text()), "files": [{"path": "day=2026-01-01/a", "rows": 1, "checksum": "2"}]}
    )
    runs = ledger(json=manifest, closed_json='{"kept": 4}')
    assert runs.manifest(FIRST).files[0].rows == 1
    assert runs.closed(FIRST) == Closed(4, FIRST)


@pytest.mark.parametrize("text", ["", "[]"])
def test_a_manifest_that_was_changed_by_hand_is_named(text: str) -> None:
    with pytest.raises(ArchiveError, match=rf"/data/outbox/_runs/{FIRST}\.json: is not "):
        ledger(json=text).manifest(FIRST)
