"""docs/reference/conformance.md#command-line: prune by ages, and which database it works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import answer, run_cli
from tests.support.fixtures.outbox import Outbox

NOWHERE = "postgres://nobody@127.0.0.1:1/nowhere"


def fill(outbox: Outbox, status: str, minutes: int) -> None:
    outbox.database.run(
        """
        INSERT INTO openoutbox_events (event_id, event_type, payload, status, delivered_at, updated_at)
        SELECT gen_random_uuid(), 't', '', %(status)s::text,
               CASE WHEN %(status)s::text = 'DELIVERED' THEN past END, past
        FROM (SELECT now() - make_interval(mins => %(minutes)s) AS past) AS it
        """,
        {"status": status, "minutes": minutes},
    )


@pytest.mark.parametrize(
    ("delivered_age", "dead_age", "gone"),
    [
        ("30m", "0", (4, 0)),
        ("2h", "1d", (3, 1)),
        ("0d", "90m", (0, 3)),
        ("1d", "", (1, 0)),
    ],
)
def test_ages_in_days_hours_and_minutes(
    outbox: Outbox, tmp_path: Path, delivered_age: str, dead_age: str, gone: tuple[int, int]
) -> None:
    for minutes in (10, 40, 3 * 60, 5 * 60, 25 * 60):
        for status in ("DELIVERED", "DEAD"):
            fill(outbox, status, minutes)
    ages = ("--delivered-age", delivered_age, f"--dead-age={dead_age}")
    dry = answer(tmp_path, "prune", *ages, "--dry-run", STORAGE_URL=outbox.pruner_url)
    assert outbox.counts() == {"DELIVERED": 5, "DEAD": 5}
    done = answer(tmp_path, "prune", *ages, STORAGE_URL=outbox.pruner_url)
    assert (dry["delivered"], dry["dead"]) == (done["delivered"], done["dead"]) == gone
    assert outbox.counts() == {"DELIVERED": 5 - gone[0], "DEAD": 5 - gone[1]}


def test_the_option_wins_over_the_variable_wherever_it_stands(outbox: Outbox, tmp_path: Path) -> None:
    fill(outbox, "DEAD", 40 * 24 * 60)
    assert run_cli(tmp_path, "prune", STORAGE_URL=NOWHERE).returncode == 1
    (tmp_path / ".env").write_text(f"STORAGE_URL={NOWHERE}\n")
    option = ("--storage-url", outbox.url)
    for arguments in ((*option, "prune"), ("prune", *option), ("--storage-url", NOWHERE, "prune", *option)):
        done = run_cli(tmp_path, *arguments, STORAGE_URL=NOWHERE)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(character.isascii() and character.isprintable() for character in done.stdout.replace("\n", ""))
    (tmp_path / ".env").write_text(f"STORAGE_URL={outbox.url}\n")
    assert run_cli(tmp_path, "prune").returncode == 0
