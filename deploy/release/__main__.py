"""Make a release: ``python -m deploy.release check``, then ``build``. `make release` runs both, with audits between."""

from __future__ import annotations

import argparse
import gzip
import os
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cyclonedx.model.component import ComponentType

from deploy.release.packages import Package, installed_packages, locked_packages
from deploy.release.sbom import document
from deploy.release.source import ReleaseRefused, Source, read_source, tag_earlier
from deploy.release.statement import checksums, default_base, provenance, sha256

ROOT: Final = Path(__file__).parents[2]
DIST: Final = ROOT / "dist"
_LOCAL: Final = "urn:openoutbox-relay:builder:local"
_REFUSED: Final = 2


def main() -> int:
    """Run one command; returns the exit code: 2 when no release can be made of this checkout."""
    arguments = _parse()
    try:
        for tag in tag_earlier(ROOT):
            sys.stdout.write(f"tagged {tag}: git push origin {tag}\n")
        source = read_source(ROOT)
        if arguments.command == "build":
            _build(source, arguments)
    except ReleaseRefused as error:
        sys.stderr.write(f"no release: {error}\n")
        return _REFUSED
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="whether this checkout is a tagged commit")
    build = commands.add_parser("build", help="build everything into dist/")
    build.add_argument("--engine", default="", help="docker or podman, with options of its own")
    build.add_argument("--image-flags", default="", help="options of the engine's build command")
    build.add_argument("--base", default="", help="the base image; without it the Dockerfile's")
    build.add_argument("--sign", default="", help="a command that signs a file, whose name is added to it")
    build.add_argument("--builder", default=_LOCAL, help="URI of who builds, for the provenance statement")
    return parser.parse_args()


def _build(source: Source, arguments: argparse.Namespace) -> None:
    """Build the packages, the image, their bills of materials, checksums and provenance into ``dist/``."""
    started = datetime.now(UTC)
    if not arguments.engine:
        raise ReleaseRefused("an image needs docker or podman, and neither is installed; or name one: make ENGINE=…")
    base = arguments.base or default_base((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    client = _packages(source, ROOT / "client", "openoutbox_client")
    relay = _packages(source, ROOT, "openoutbox_relay")
    flags = [*shlex.split(arguments.image_flags), f"--build-arg=BASE={base}"]
    image, installed = _image(source, shlex.split(arguments.engine), flags)
    locked = locked_packages(ROOT / "deploy" / "image" / "requirements.lock")
    own = sha256(client[0])  # the lock leaves the client out
    bills: dict[Path, tuple[ComponentType, list[Package]]] = {
        client[0]: (ComponentType.LIBRARY, []),
        relay[0]: (ComponentType.LIBRARY, [Package("pypi", "openoutbox-client", source.version, (own,)), *locked]),
        image: (ComponentType.CONTAINER, installed),
    }
    for path, (kind, packages) in bills.items():
        _write(f"{path.name}.cdx.json", document(source, path.name, kind, packages))
    files = [*client, *relay, image, *sorted(DIST.glob("*.cdx.json"))]
    statement = provenance(source, files, root=ROOT, base=base, builder=arguments.builder, started=started)
    _write("provenance.intoto.json", statement)
    _write("SHA256SUMS", checksums([*files, DIST / "provenance.intoto.json"]))
    if arguments.sign:
        _run(*shlex.split(arguments.sign), str(DIST / "SHA256SUMS"))
    else:
        sys.stderr.write("SHA256SUMS is not signed: make release SIGN=… signs it (SECURITY.md)\n")
    for path in sorted(DIST.iterdir()):
        sys.stdout.write(f"{path.stat().st_size / 1e6:8.2f} MB  {path.relative_to(DIST.parent)}\n")


def _packages(source: Source, project: Path, name: str) -> tuple[Path, Path]:
    """Build the source archive of a project, and the wheel from it, and check their metadata; the wheel is first."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source.seconds)}
    build = (sys.executable, "-m", "uv", "build", "--quiet", "--no-create-gitignore")
    _run(*build, "--out-dir", str(DIST), str(project), env=environment)
    (wheel,), (sdist,) = DIST.glob(f"{name}-*.whl"), DIST.glob(f"{name}-*.tar.gz")
    _run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
    return wheel, sdist


def _image(source: Source, engine: list[str], flags: list[str]) -> tuple[Path, list[Package]]:
    """Build the image and save it, compressed, for ``docker load`` and ``podman load``; returns what it holds, too."""
    name = f"openoutbox-relay:{source.version}"
    labels = {"VERSION": source.version, "REVISION": source.commit, "SOURCE": source.origin}
    values = [f"--build-arg={key}={value}" for key, value in labels.items()]
    _run(*engine, "build", *flags, *values, "--tag", name, str(ROOT))
    archive = DIST / f"openoutbox-relay-{source.version}-image.tar"
    _run(*engine, "save", "--output", str(archive), name)
    packages = installed_packages(archive)
    compressed = archive.with_suffix(".tar.gz")
    with (
        archive.open("rb") as plain,
        compressed.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as target,
    ):
        shutil.copyfileobj(plain, target, 1 << 20)
    archive.unlink()
    return compressed, packages


def _run(*command: str, env: dict[str, str] | None = None) -> None:
    if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
        raise ReleaseRefused(f"{shlex.join(command)} failed; its output says why")


def _write(name: str, text: str) -> None:
    (DIST / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
