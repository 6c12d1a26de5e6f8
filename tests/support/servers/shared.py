"""One server of each kind for a whole test run, however many processes (pytest-xdist workers) it has.

The process that leads the run owns a folder, whose path its workers inherit. The first process that needs a server
starts it under a lock and notes address, process id and data folder there; the leader stops all that are noted when
the run ends. A run that was killed leaves its folder behind: the next run finds that its owner is gone and clears up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from relay.localservers.process import alive, make_folder, remove, stop_process
from relay.localservers.server import LocalServer

_PREFIX = "tests"


@dataclass(frozen=True, slots=True)
class Note:
    """A running server, as another process needs to know it."""

    url: str
    pid: int
    folder: str
    stop_signal: int


class Registry:
    """The servers of one test run. The folder is the whole state; any process of the run may use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls) -> Registry:
        """A new registry, owned by this process. Clears up after runs whose owner is gone."""
        _clear_up()
        folder = make_folder(_PREFIX)
        (folder / "owner").write_text(str(os.getpid()), encoding="utf-8")
        return cls(folder)

    def url(self, name: str, make: Callable[[], LocalServer]) -> str:
        """The address of the server called ``name``; the first to ask starts it."""
        note = self.folder / f"{name}.json"
        with self._lock(name):
            if note.exists():
                return Note(**json.loads(note.read_text(encoding="utf-8"))).url
            server = make()
            server.start()
            text = json.dumps(asdict(Note(server.url, server.pid, str(server.folder), server.polite)))
            note.write_text(text, encoding="utf-8")
            server.release()
            return server.url

    def close(self) -> None:
        """Stop all servers of the run and delete their data. For the owner, after its workers have ended."""
        for path in self.folder.glob("*.json"):
            note = Note(**json.loads(path.read_text(encoding="utf-8")))
            stop_process(note.pid, note.stop_signal)
            remove(Path(note.folder))
        remove(self.folder)

    @contextlib.contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        with (self.folder / f"{name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _clear_up() -> None:
    for owner in Path(tempfile.gettempdir()).glob(f"openoutbox-{_PREFIX}-*/owner"):
        with contextlib.suppress(OSError, ValueError):
            if not alive(int(owner.read_text(encoding="utf-8"))):
                Registry(owner.parent).close()
