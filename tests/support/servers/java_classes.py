"""The classes of a Java program, loaded and verified once for a checkout: its JVMs map them and read no jars.

Java 17 can write the classes of a process into an archive when the process ends (application class data sharing), and
map the archive in later processes. An archive that does not fit the version of Java, the garbage collector or the jars
is ignored: Java then loads the classes from the jars.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.paths import CACHE

LEAN = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""The options of every JVM: a small garbage collector, and a compiler that is quick rather than good."""

_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # an archive that does not fit is a warning on standard output


def with_classes(name: str, jars: Sequence[Path], write: Callable[[Path], None], *, wait: bool = True) -> str:
    """``LEAN``, and the archive of these jars, which ``write`` writes when it is called for the first time.

    While another process writes it this one waits, or goes without.
    """
    java = shutil.which("java")
    if java is None:
        return LEAN
    content = "\n".join(f"{file} {file.stat().st_mtime_ns}" for file in (Path(java).resolve(), *jars))
    archive = CACHE / f"{name}-classes-{hashlib.sha256(content.encode()).hexdigest()[:16]}.jsa"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}-classes.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return LEAN
        if not archive.exists():
            _first(archive, name, write)
    return f"{LEAN} -XX:SharedArchiveFile={archive} {_SILENT}"


def _first(archive: Path, name: str, write: Callable[[Path], None]) -> None:
    for outdated in CACHE.glob(f"{name}-classes-*.jsa"):
        outdated.unlink()
    unfinished = archive.with_suffix(".unfinished")
    write(unfinished)
    if unfinished.exists():
        unfinished.rename(archive)
    else:
        archive.touch()  # a Java that cannot write one, and ignores this one
