"""Checksums of a release, and the provenance statement: an in-toto statement with SLSA's predicate, unsigned."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy.release.source import Source

_BUILD_TYPE = "urn:openoutbox-relay:make-release:1"


def sha256(path: Path) -> str:
    """The digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(files: Iterable[Path]) -> str:
    """The lines that ``sha256sum --check`` reads."""
    return "".join(f"{sha256(path)}  {path.name}\n" for path in files)


def provenance(source: Source, files: Iterable[Path], *, root: Path, base: str, builder: str, started: datetime) -> str:
    """Return the statement that ``files`` were built of ``source`` by ``builder``, on the image's ``base``."""
    name, _, digest = base.partition("@sha256:")
    materials: list[dict[str, Any]] = [
        {"uri": f"git+{source.origin}@refs/tags/{source.tag}", "digest": {"gitCommit": source.commit}},
        {"uri": f"oci://{name}", **({"digest": {"sha256": digest}} if digest else {})},
        *(
            {"uri": f"file:{lock.relative_to(root)}", "digest": {"sha256": sha256(lock)}}
            for lock in sorted((root / "deploy" / "image").glob("*.lock"))
        ),
    ]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": sha256(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"tag": source.tag, "base": base},
                "internalParameters": {"python": platform.python_version(), "machine": platform.machine()},
                "resolvedDependencies": materials,
            },
            "runDetails": {
                "builder": {"id": builder},
                "metadata": {"startedOn": _stamp(started), "finishedOn": _stamp(datetime.now(UTC))},
            },
        },
    }
    return json.dumps(statement, indent=2) + "\n"


def default_base(dockerfile: str) -> str:
    """The base image that the Dockerfile names."""
    (base,) = re.findall(r"^ARG BASE=(\S+)$", dockerfile, re.MULTILINE)
    return str(base)


def _stamp(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
