"""The commit that a release is made of: tagged with the version, and nothing in the checkout differs from it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_VERSION: Final = re.compile(r'^NUMBER = "([^"]+)"$', re.MULTILINE)
EARLIER: Final = {"v0.1.0": "0d5d3849ffc809b715aa429b992161d33d66ab71"}
"""Versions that were used before there was a release, with their commits."""
_SHOWN: Final = 5  # files of a dirty checkout that the error names


class ReleaseRefused(Exception):
    """No release can be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """A tagged commit."""

    version: str
    commit: str
    seconds: int
    """When the commit was made, since 1970: the time of everything in the release."""
    origin: str
    """URL of the repository without a login; empty when the checkout has no remote."""

    @property
    def tag(self) -> str:
        """The tag of this version."""
        return f"v{self.version}"

    @property
    def time(self) -> datetime:
        """When the commit was made."""
        return datetime.fromtimestamp(self.seconds, UTC)


def read_source(root: Path) -> Source:
    """Read the commit of the checkout. Raises ReleaseRefused for changed files, and for a missing or different tag."""
    (version,) = _VERSION.findall((root / "relay" / "version.py").read_text(encoding="utf-8"))
    if version.endswith(".dev0"):
        raise ReleaseRefused(
            f"relay/version.py is that of the commits between two releases, {version}. Write {version[:-5]} there, in "
            f"client/openoutbox/version.py and pyproject.toml, commit that, and git tag --annotate v{version[:-5]}"
        )
    if changed := _git(root, "status", "--porcelain").splitlines():
        names = ", ".join(line[3:] for line in changed[:_SHOWN]) + (", …" if len(changed) > _SHOWN else "")
        raise ReleaseRefused(f"the checkout differs from its commit: {names}. Commit or remove these files.")
    commit = _git(root, "rev-parse", "HEAD")
    tags = _git(root, "tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        has = f"its tags are {', '.join(tags)}" if tags else "it has no tag"
        raise ReleaseRefused(
            f"commit {commit[:12]} is not version {version} of relay/version.py: {has}. "
            f"Tag it: git tag --annotate v{version}; or check the tag out: git checkout v{version}"
        )
    seconds = int(_git(root, "show", "--no-patch", "--format=%ct", "HEAD"))
    return Source(version, commit, seconds, public_url(_git(root, "config", "--default", "", "remote.origin.url")))


def tag_earlier(root: Path) -> list[str]:
    """Tag the versions that have no tag yet in a checkout with their commits; returns these tags."""
    tags = _git(root, "tag").split()
    commits = _git(root, "rev-list", "HEAD").split()
    missing = [tag for tag, commit in EARLIER.items() if tag not in tags and commit in commits]
    for tag in missing:
        _git(root, "tag", tag, EARLIER[tag])
    return missing


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise ReleaseRefused("git is not installed; a release is made of a tagged commit") from None
    except subprocess.CalledProcessError as error:
        raise ReleaseRefused(f"git {' '.join(arguments)}: {error.stderr.strip()}") from None
    return done.stdout.rstrip("\n")


def public_url(url: str) -> str:
    """The URL as it may be published: no user, no password; empty for a folder of this machine."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return ""
    if not parts.scheme:
        return url if ":" in url.partition("/")[0] else ""  # git@host:path, which holds no password
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
