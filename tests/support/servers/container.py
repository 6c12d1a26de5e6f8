"""The container image, built and run without an engine's daemon: buildah and podman, from the distribution.

Only for ``make container-test``, as root: ``tools()`` installs podman, buildah, runc and debootstrap by apt where they
are missing. A machine that cannot do that skips the tests and says why, in continuous integration too. The base image
is made by debootstrap, so that no image registry is needed: the Dockerfile's argument BASE names it, the Python is
Debian's, and like the official images it has neither documents nor compiled files. It stays in ``.cache/container`` of
the checkout. Certificates of the machine (``SSL_CERT_FILE``) are mounted into the build and stay out of the image.
"""

from __future__ import annotations

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
# What the official images leave out, too.
_LEFT_OUT = (
    *("./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/log/*", "./usr/share/doc/*", "./usr/share/man/*"),
    *("./usr/share/info/*", "./usr/share/locale/*", "__pycache__"),
)
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

    def build(self, image: str = IMAGE) -> None:
        """Build the image of the checkout's Dockerfile; every call runs every step anew."""
        if self.podman("image", "exists", _BASE, check=False).returncode:
            self.podman("import", str(_base()), _BASE)
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
    """Install the programs that are missing; skip the tests where an image can be neither built nor run."""
    if os.geteuid() != 0:
        _unavailable("building and running an image needs root")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False).returncode:
        _unavailable("this machine does not let root create namespaces")
    if all(shutil.which(name) for name in _PACKAGES):
        return
    if shutil.which("apt-get") is None:
        _unavailable(f"no apt-get to install {', '.join(_PACKAGES)}; install them")
    for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *_PACKAGES]):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        if subprocess.run(["apt-get", *command], env=environ, capture_output=True, check=False).returncode != 0:
            _unavailable(f"apt-get {command[0]} failed")


def _base() -> Path:
    base = _CACHE / "base.tar"
    if not base.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        root = _CACHE / "rootfs"
        shutil.rmtree(root, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={_CONTENTS}", "bookworm", str(root)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            _unavailable(f"debootstrap failed: {(done.stdout + done.stderr)[-300:]}")
        left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
        subprocess.run(["tar", "-C", str(root), *left_out, "-cf", str(base.with_suffix(".partial")), "."], check=True)
        base.with_suffix(".partial").rename(base)
        shutil.rmtree(root)
    return base


def _unavailable(why: str) -> NoReturn:
    print(f"\nNO CONTAINER IMAGE WAS BUILT OR TESTED: {why}")
    pytest.skip(why)
