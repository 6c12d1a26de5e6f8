"""What the local servers have in common: folder, free ports, start, stop, crash, start again, clean up.

A subclass says how its server is prepared, started and asked; for the demonstration, the tests and the benchmarks.
Not thread-safe. A start that fails leaves neither process nor folder.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from relay.localservers.process import Account, ServerFailed, ServerProcess, log_tail, make_folder, remove

_TRIES = 5  # of other ports, if another process takes a chosen one first


class LocalServer(ABC):
    """One server of this machine. ``start`` and ``stop`` may alternate: ports and data stay until ``close``."""

    name: ClassVar[str]
    ready_within: ClassVar[float]  # seconds; generous, since test machines are busy
    patience: ClassVar[float] = 1.0  # the factor of ready_within; tests raise it on slow machines
    polite: ClassVar[signal.Signals] = signal.SIGTERM  # what makes it stop in good order, even with open connections

    def __init__(self, account: Account | None = None) -> None:
        """``account`` is the user it runs as, None for the caller's."""
        self._account = account
        self._parent: Path | None = None
        """Where ``start`` creates the folder, None for the temporary folder; for subclasses."""
        self._process: ServerProcess | None = None
        self._folder: Path | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The address that clients take."""

    @abstractmethod
    def _prepare(self) -> None:
        """Choose free ports and write what they stand in. Called again when another process took a port first."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """What starts it."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it is ready for clients."""

    def _environment(self) -> Mapping[str, str] | None:
        """The environment it runs in, None for the caller's."""
        return None

    @property
    def folder(self) -> Path:
        """Where its data and log are. Raises ServerFailed before the first start and after ``close``."""
        if self._folder is None:
            raise ServerFailed(f"this {self.name} was never started, or is closed")
        return self._folder

    @property
    def pid(self) -> int:
        """Its process id. Raises ServerFailed when it does not run."""
        if self._process is None:
            raise ServerFailed(f"this {self.name} does not run")
        return self._process.pid

    def start(self) -> Self:
        """Start it and return when it answers. Raises ServerFailed with the log's end if it does not."""
        if self._process and self._process.running:
            return self
        if self._folder is not None:
            self._run()
            return self
        self._folder = make_folder(self.name.lower(), self._account, self._parent)
        try:
            self._first_run()
        except BaseException:
            self.close()
            raise
        return self

    def stop(self, how: int | None = None) -> None:
        """Stop it, in good order or by the signal ``how`` (SIGKILL is a crash). Ports and data stay."""
        if self._process:
            self._process.stop(self.polite if how is None else how)
            self._process = None

    def log_tail(self) -> str:
        """The end of what it wrote since its last start."""
        return log_tail(self.folder / "log")

    def release(self) -> None:
        """Leave it running and forget it: the caller stops it by its process id and deletes its folder."""
        if self._process:
            self._process.release()
        self._process = self._folder = None

    def close(self) -> None:
        """Stop it and delete its data."""
        self.stop()
        if self._folder:
            remove(self._folder)
        self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _first_run(self, tries: int = _TRIES) -> None:
        self._prepare()
        try:
            self._run()
        except ServerFailed as failure:
            if tries <= 1 or "address already in use" not in str(failure).lower():
                raise
            self._first_run(tries - 1)

    def _run(self) -> None:
        (self.folder / "log").write_text("", encoding="utf-8")
        self._process = ServerProcess(self._command(), self.folder, self._account, self._environment())
        self._process.wait_ready(self._answers, self.ready_within * self.patience, self.name)
