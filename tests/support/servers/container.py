"""The container image, built and run without an engine's daemon: buildah and podman, from the distribution.

Only for ``make container-test``: ``tools()`` installs podman, buildah, runc and debootstrap by apt where they are
missing. The tests are skipped, and say so, only where a machine cannot build and run images at all: not as root, not on
Debian, or without the right to mount. Anything else that goes wrong is a failure. The base image
is made by debootstrap, so that no image registry is needed: the Dockerfile's argument BASE names it, the Python is
Debian's, and like the official images it has neither documents nor compiled files. It stays in ``.cache/container`` of
the checkout. Certificates of the machine (``SSL_CERT_FILE``) are mounted into the build and stay out of the image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.paths import ROOT

IMAGE = "localhost/openoutbox-relay"
_BASE = "localhost/openoutbox-base"
_CACHE = ROOT / ".cache" / "container"
_PACKAGES = ("podman", "buildah", "runc", "debootstrap")
_CONTENTS = "python3,python3-venv,ca-certificates"
_RELEASE = "bookworm"
# What the official images leave out, too.
_LEFT_OUT = (
    *("./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/log/*", "./usr/share/doc/*", "./usr/share/man/*"),
    *("./usr/share/info/*", "./usr/share/locale/*", "__pycache__"),
)
# The storage driver's mount, tried on folders in memory.
_MOUNTS = """
set -e
mount -t tmpfs none /mnt && cd /mnt && mkdir low up work all
mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work all
"""
# crun and the usual limits ask for more than a build machine grants.
_CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=1024:4096"]
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


class Engine:
    """buildah and podman with a storage of their own below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stores = ["--root", str(folder / "storage"), "--runroot", str(folder / "run")]
        (folder / "containers.conf").write_text(_CONFIGURATION, encoding="utf-8")
        self._env = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}

    def podman(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one podman command."""
        return self._run("podman", *arguments, check=check)

    def import_base(self) -> None:
        """Make the base image, in the first run of a checkout, and store it under its name."""
        self.podman("import", str(_base()), _BASE)

    def build(self, image: str = IMAGE) -> None:
        """Build the image of the checkout's Dockerfile; every call runs every step again. Needs ``import_base``."""
        mounts: list[str] = []
        if certificates := os.environ.get("SSL_CERT_FILE"):
            pip = self._folder / "pip.conf"
            pip.write_text(f"[global]\ncert = {certificates}\n", encoding="utf-8")
            mounts = ["-v", f"{certificates}:{certificates}:ro", "-v", f"{pip}:/etc/pip.conf:ro"]
        how = ["--isolation", "chroot", "--no-cache", "--format", "docker", "--build-arg", f"BASE={_BASE}", *mounts]
        self._run("buildah", "bud", *how, "-t", image, str(ROOT))

    @contextmanager
    def files(self, image: str = IMAGE) -> Iterator[Path]:
        """The image's file system, below a folder."""
        folder = self.podman("image", "mount", image).stdout.strip()
        try:
            yield Path(folder)
        finally:
            self.podman("image", "unmount", image)

    def labels(self, image: str = IMAGE) -> dict[str, str]:
        """The image's labels."""
        (details,) = json.loads(self.podman("image", "inspect", image).stdout)
        labels: dict[str, str] = details["Labels"]
        return labels

    def image_megabytes(self) -> float:
        """Size of the image, base included."""
        (image,) = json.loads(self.podman("image", "inspect", IMAGE).stdout)
        return float(image["Size"]) / 1e6

    def _run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [program, *self._stores, *arguments]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=600, check=False)
        if check and done.returncode != 0:
            pytest.fail(f"{' '.join([program, *arguments])}: {done.stderr[-3000:]}")
        return done


def tools() -> None:
    """Install the programs that are missing; skips the tests on a machine that can neither build nor run images."""
    if os.geteuid() != 0:
        _unavailable("building and running an image needs root")
    if shutil.which("apt-get") is None:
        _unavailable("building and running an image needs Debian's packages, and this machine has no apt-get")
    if _fails("unshare", "--mount", "--pid", "--fork", "sh", "-c", _MOUNTS):
        _unavailable("this machine does not let root create namespaces and mount overlay file systems")
    if all(shutil.which(name) for name in _PACKAGES):
        return
    for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *_PACKAGES]):
        if reason := _fails("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *command):
            pytest.fail(f"apt-get {command[0]} failed: {reason}")


def _fails(*command: str) -> str:
    """The end of a command's output when it fails, else an empty text."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"exit code {done.returncode}: {(done.stdout + done.stderr)[-300:]}" if done.returncode else ""


def _base() -> Path:
    contents = repr((_CONTENTS, _RELEASE, _LEFT_OUT)).encode()
    base = _CACHE / f"base-{hashlib.sha256(contents).hexdigest()[:8]}.tar"
    if not base.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        root = _CACHE / "rootfs"
        shutil.rmtree(root, ignore_errors=True)
        if reason := _fails("debootstrap", "--variant=minbase", f"--include={_CONTENTS}", _RELEASE, str(root)):
            pytest.fail(f"debootstrap failed: {reason}")
        left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
        subprocess.run(["tar", "-C", str(root), *left_out, "-cf", str(base.with_suffix(".partial")), "."], check=True)
        base.with_suffix(".partial").rename(base)
        shutil.rmtree(root)
    return base


def _unavailable(why: str) -> NoReturn:
    print(f"\nNO CONTAINER IMAGE WAS BUILT OR TESTED: {why}")
    pytest.skip(why)
