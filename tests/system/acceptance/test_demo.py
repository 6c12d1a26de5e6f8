"""The demonstration as a user runs it: it tells the truth, and leaves nothing behind however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from relay.localservers.daemon import python_path
from tests.support.waiting import patience, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]


@dataclass
class Demo:
    """One run in a temporary folder of its own."""

    folder: Path
    arguments: list[str]
    output: Path = field(init=False)

    def __post_init__(self) -> None:
        self.output = self.folder / "output"
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "relay.demo", *self.arguments],
                cwd=self.folder,
                env={**python_path(), "TMPDIR": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def text(self) -> str:
        return self.output.read_text()

    def says(self, words: str) -> bool:
        assert self.process.poll() is None or words in self.text(), self.text()
        return words in self.text()

    def summary(self) -> Mapping[str, str]:
        """The lines ``name: value`` of the end."""
        return dict(line.split(": ", 1) for line in self.text().splitlines() if ": " in line)

    def left_behind(self) -> list[str]:
        """Folders in its temporary folder and processes that work in it."""
        folders = [str(path) for path in self.folder.iterdir() if path != self.output]
        return folders + [str(cwd) for cwd in _working_folders() if cwd.is_relative_to(self.folder)]

    def wait_gone(self) -> None:
        """A process that was killed may take a moment to be gone; one that was forgotten stays."""
        wait_until(lambda: not self.left_behind(), what=f"an end of {self.left_behind()}")


def _working_folders() -> Iterator[Path]:
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            yield link.readlink()
        except OSError:  # it has ended meanwhile, or is another process
            continue


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder that PostgreSQL's account can reach; pytest's own is private."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_it_adds_up_and_cleans_up(folder: Path) -> None:
    demo = Demo(folder, ["--seconds", "2", "--rate", "50"])
    assert demo.process.wait(patience(90)) == 0, demo.text()
    shown = demo.summary()
    assert int(shown["events committed"]) > 0
    assert int(shown["events rolled back"]) > 0
    assert shown["events committed"] == shown["events received"] == shown["rows DELIVERED"]
    assert (shown["events missing"], shown["rolled back but received"]) == ("0", "0")
    demo.wait_gone()


def test_one_that_lasts_has_failures_and_a_console_and_ctrl_c_ends_it_with_the_sums(folder: Path) -> None:
    demo = Demo(folder, ["--keep", "--rate", "50"])
    wait_until(lambda: demo.says("console: ") and demo.says("Ctrl-C ends it"), what="the demonstration to work")
    with httpx.Client(base_url=demo.summary()["console"]) as console:

        def errors() -> set[str]:
            groups = console.get("/api/v1/dead-letters").raise_for_status().json()["items"]
            return {group["error"] for group in groups}

        wait_until(lambda: errors() == {"MSG_SIZE_TOO_LARGE", "TOPIC_EXCEPTION"}, what="dead letters")
        wait_until(lambda: console.get("/api/v1/stats").json()["pending_count"] > 0, what="a scheduled event")
        assert console.get("/").status_code == 200
        headers = {"Idempotency-Key": "pause"}
        pause = {"scope": "type", "name": "order.placed", "reason": "a look around"}
        console.post("/api/v1/pauses", json=pause, headers=headers).raise_for_status()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(patience()) == 0, demo.text()
    shown = demo.summary()
    assert int(shown["rows DEAD"]) >= 2
    assert int(shown["events refused or due later"]) >= 3
    assert "or waits or is dead in the table" in demo.text()
    demo.wait_gone()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_leaves_nothing(folder: Path, how: signal.Signals) -> None:
    demo = Demo(folder, [])
    wait_until(lambda: demo.says("creating the outbox table"), what="PostgreSQL to run")
    demo.process.send_signal(how)
    assert demo.process.wait(patience()) == 130, demo.text()
    demo.wait_gone()
