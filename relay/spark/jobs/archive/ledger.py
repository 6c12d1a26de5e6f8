"""The runs of an archive, by the small files of its folder ``_runs``. Reads no file itself.

    R.begun          run R writes rows
    R.json           R's manifest: its files are complete, read back and counted
    R.discarded      R did not end, and a later run has discarded its files
    R.closed.json    R's rows were deleted from the table, except for the retained ones
    R.closed.P       the same, done by the later run P

A file may appear after the client that wrote it is dead: a Spark Connect server goes on with the client's last
operation for minutes. So a run that is discarded stays so, whatever appears of it later, and each run that closes R
writes files of its own, of which the latest run's count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from relay.spark.jobs.errors import ArchiveError

FORMAT: Final = 1

BEGUN: Final = "begun"
MANIFEST: Final = "json"
DISCARDED: Final = "discarded"
"""Files of a run, by the end of their names: ``R.begun``."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file, by its path below the run's folder."""

    path: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a run, and the time before which its rows were delivered or died, ISO 8601."""

    run: str
    rows: int
    checksum: str
    before: str
    statuses: tuple[str, ...]
    files: tuple[DataFile, ...]
    format: int = FORMAT

    def text(self) -> str:
        """The content of the manifest's file."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of a run."""

    retained: int
    """How many of its rows stayed in the table."""
    by: str
    """The run that has deleted the others, mostly the run itself."""

    def text(self) -> str:
        """The content of the file (the field's name is the file's)."""
        return json.dumps({"kept": self.retained})


def closed_name(run: str, by: str) -> str:
    """The file that says that the run was closed."""
    return f"{run}.closed.json" if by == run else f"{run}.closed.{by}"


@dataclass(frozen=True, slots=True)
class RunLedger:
    """The files at one moment."""

    path: str
    """The folder of the files, for messages."""
    files: Mapping[str, str]
    """Their texts by name."""

    def runs(self) -> list[str]:
        """Runs with a manifest, oldest first."""
        return sorted(run for run, kind in self._kinds() if kind == MANIFEST and not self.is_discarded(run))

    def open_runs(self) -> list[str]:
        """Runs whose rows may still be in the table."""
        return [run for run in self.runs() if self.closed(run) is None]

    def strays(self) -> list[str]:
        """Runs that have begun to write and have no manifest."""
        runs = sorted(run for run, kind in self._kinds() if kind == BEGUN)
        return [run for run in runs if f"{run}.{MANIFEST}" not in self.files and not self.is_discarded(run)]

    def is_discarded(self, run: str) -> bool:
        """Whether the run's files were discarded."""
        return f"{run}.{DISCARDED}" in self.files

    def manifest(self, run: str) -> Manifest:
        """A run's manifest. Raises ArchiveError for a run without one, and for one that was discarded."""
        name = f"{run}.{MANIFEST}"
        if name not in self.files or self.is_discarded(run):
            raise ArchiveError(f"{self.path}/{name}: is missing, or another run has discarded run {run}")
        content = parse(self.files[name], f"{self.path}/{name}")
        files = tuple(DataFile(**each) for each in content.pop("files"))
        return Manifest(**{**content, "statuses": tuple(content["statuses"]), "files": files})

    def closed(self, run: str) -> Closed | None:
        """The end of the run; None while its rows may be in the table."""
        prefix = f"{run}.closed."
        closers = [name.removeprefix(prefix) for name in self.files if name.startswith(prefix)]
        if not closers:
            return None
        by = max((closer for closer in closers if closer != "json"), default=run)  # names of runs sort by time
        name = closed_name(run, by)
        return Closed(int(parse(self.files[name], f"{self.path}/{name}")["kept"]), by)

    def _kinds(self) -> list[tuple[str, str]]:
        return [(run, kind) for run, _, kind in (name.partition(".") for name in self.files)]


def parse(text: str, where: str) -> dict[str, Any]:
    """The JSON object of a file. Raises ArchiveError, which names it."""
    try:
        content = json.loads(text)
    except ValueError:
        raise ArchiveError(f"{where}: is not JSON; was it changed by hand?") from None
    if not isinstance(content, dict):
        raise ArchiveError(f"{where}: is not a manifest of an archive")
    return content
