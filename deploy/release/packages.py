"""The packages of a lock and of an image archive."""

from __future__ import annotations

import json
import re
import tarfile
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path
from typing import Final

_PIN: Final = re.compile(r"^([a-z0-9.-]+)==(\S+)", re.MULTILINE)
_METADATA: Final = re.compile(r"(?:\./)?(?:opt|usr)/.*\.(?:dist|egg)-info/(?:METADATA|PKG-INFO)")
_DEBIAN: Final = re.compile(r"(?:\./)?var/lib/dpkg/status")


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """One package; ``kind`` is the type of its package URL: pypi or deb."""

    kind: str
    name: str
    version: str
    sha256: tuple[str, ...] = field(default=(), compare=False)
    """Digests of the files that a lock allows; empty for an installed package."""


def locked_packages(lock: Path) -> list[Package]:
    """The pinned packages of a lock, by name."""
    text = lock.read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", text)
    pins = ((_PIN.match(entry), entry) for entry in entries)
    return sorted(
        Package("pypi", pin[1], pin[2], tuple(re.findall(r"sha256:([0-9a-f]{64})", entry)))
        for pin, entry in pins
        if pin
    )


def installed_packages(archive: Path) -> list[Package]:
    """The packages of Python and of Debian in an image that docker or podman has saved."""
    packages: set[Package] = set()
    with tarfile.open(archive) as image:
        (manifest,) = json.load(_file(image, "manifest.json"))
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=_file(image, layer)) as files:
                for member in files:
                    if member.isfile() and _METADATA.fullmatch(member.name):
                        packages.add(_python_package(_text(files, member)))
                    elif member.isfile() and _DEBIAN.fullmatch(member.name):
                        packages = {package for package in packages if package.kind != "deb"}
                        packages |= _debian_packages(_text(files, member))
    return sorted(packages)


def _file(archive: tarfile.TarFile, name: str) -> tarfile.ExFileObject:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is not a file of the image archive")
    return file  # type: ignore[return-value]  # typeshed says IO[bytes]


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    return file.read().decode("utf-8") if file is not None else ""


def _python_package(metadata: str) -> Package:
    headers = Parser().parsestr(metadata, headersonly=True)
    return Package("pypi", re.sub(r"[-_.]+", "-", headers["Name"]).lower(), headers["Version"])


def _debian_packages(status: str) -> set[Package]:
    paragraphs = (Parser().parsestr(text, headersonly=True) for text in status.split("\n\n") if text.strip())
    return {
        Package("deb", headers["Package"], headers["Version"])
        for headers in paragraphs
        if headers["Status"].endswith(" installed")
    }
