"""``relay-cli prune`` as an operator runs it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, answer, call_cli, environment
from tests.outbox.admin.filling import fill_aged, fill_old
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import patience, wait_until

_SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END $$;
CREATE TRIGGER slow AFTER DELETE ON openoutbox_events FOR EACH STATEMENT EXECUTE FUNCTION slow()
"""


def test_it_says_what_it_deleted_in_plain_lines(outbox: Outbox, tmp_path: Path) -> None:
    fill_old(outbox, "DELIVERED", 1234)
    fill_old(outbox, "DEAD", 1)
    dry = call_cli(tmp_path, "prune", "--dry-run", STORAGE_URL=outbox.pruner_url)
    assert (dry.returncode, dry.stderr) == (0, "")
    assert re.fullmatch(
        r"delivered: would delete 1234 events from before \S+Z\ndead: would delete 1 event from before \S+Z\n",
        dry.stdout,
    )
    done = call_cli(tmp_path, "prune", STORAGE_URL=outbox.pruner_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("delivered: deleted 1234 events from before ")
    assert outbox.counts() == {}


def test_rows_that_a_trigger_keeps_are_an_error_that_says_so(outbox: Outbox, tmp_path: Path) -> None:
    fill_old(outbox, "DELIVERED", 30)
    keeps = _SLOW.replace("AFTER DELETE", "BEFORE DELETE").replace("EACH STATEMENT", "EACH ROW")
    with outbox.database.connect() as connection:
        connection.execute(keeps.replace("0.1", "0").encode())
    done = call_cli(tmp_path, "prune", STORAGE_URL=outbox.pruner_url)
    assert done.returncode == 1
    assert "a BEFORE trigger or a rule kept it as it was" in done.stderr
    assert outbox.counts() == {"DELIVERED": 30}


def test_defaults_are_7_and_30_days(outbox: Outbox, tmp_path: Path) -> None:
    fill_aged(outbox, "DELIVERED", 10 * 24)
    fill_aged(outbox, "DEAD", 31 * 24)
    result = answer(tmp_path, "prune", "--storage-url", outbox.pruner_url)
    assert (result["delivered"], result["dead"]) == (3 * 24 + 1, 24 + 1)
    assert result["complete"] is True
    assert result["dry_run"] is False


@pytest.mark.parametrize("nothing", ["0", ""])
def test_nothing_to_do_is_done(outbox: Outbox, tmp_path: Path, nothing: str) -> None:
    fill_old(outbox, "DELIVERED", 1)
    done = call_cli(
        tmp_path, "--storage-url", outbox.pruner_url, "prune", "--delivered-age", nothing, "--dead-age", nothing
    )
    assert (done.returncode, done.stdout) == (0, "delivered: left alone\ndead: left alone\n")
    assert outbox.counts() == {"DELIVERED": 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--delivered-age", "7"], "'7' is not a duration; it has no unit: 7s is seconds; write for example"),
        (["--dead-age", "-1d"], "'-1d' is not a duration"),
        (["--dead-age", "99999999d"], "longer than a hundred years"),
        (["--batch-size", "0"], "--batch-size"),
    ],
)
def test_wrong_usage_fails_with_two(tmp_path: Path, arguments: list[str], said: str) -> None:
    failed = call_cli(tmp_path, "prune", "--storage-url", "postgres://127.0.0.1:1/x", *arguments)
    assert failed.returncode == 2
    assert said in " ".join(failed.stderr.split())


def test_an_unreachable_database_fails_with_one(tmp_path: Path) -> None:
    failed = call_cli(tmp_path, "prune", "--storage-url", "postgres://u:geheim@127.0.0.1:1/x")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("error: connection failed: ")
    assert "geheim" not in failed.stderr
    assert "Traceback" not in failed.stderr


def test_interrupted_it_says_what_is_done_and_may_be_run_again(outbox: Outbox, tmp_path: Path) -> None:
    fill_old(outbox, "DELIVERED", 2000)
    outbox.database.run(_SLOW)
    command = [*COMMAND, "prune", "--batch-size", "10"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(STORAGE_URL=outbox.pruner_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: outbox.counts()["DELIVERED"] < 2000, what="the first batch to be gone")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=patience())
    assert (process.returncode, stderr) == (130, "")
    summary = re.match(
        r"delivered: deleted (\d+) events .*\ndead: .*\nnot complete; run it again to continue\n", stdout
    )
    assert summary is not None, stdout
    assert outbox.counts() == {"DELIVERED": 2000 - int(summary[1])}
    outbox.database.run("DROP TRIGGER slow ON openoutbox_events")
    assert answer(tmp_path, "prune", STORAGE_URL=outbox.pruner_url)["delivered"] == 2000 - int(summary[1])


def test_a_terminal_shows_progress_once_it_takes_long(outbox: Outbox, tmp_path: Path) -> None:
    fill_old(outbox, "DELIVERED", 300)
    outbox.database.run(_SLOW)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "prune", "--batch-size", "10"],
        cwd=tmp_path,
        env=environment(STORAGE_URL=outbox.pruner_url, TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        os.close(theirs)
        screen = b""
        try:
            while part := os.read(ours, 4096):
                screen += part
        except OSError:  # a terminal whose other side is closed
            pass
        stdout, _ = process.communicate(timeout=patience())
    os.close(ours)
    assert process.returncode == 0
    assert b"pruning" in screen
    assert b"/300" in screen
    assert stdout.startswith("delivered: deleted 300 events")
