"""What `make release` refuses, and what it writes. The engine of the one test that builds is a script."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cyclonedx.model.component import ComponentType

from deploy.release import __main__ as release
from deploy.release.packages import Package, installed_packages, locked_packages
from deploy.release.sbom import document
from deploy.release.source import EARLIER, ReleaseRefused, Source, public_url, read_source, tag_earlier
from deploy.release.statement import checksums, default_base, provenance, sha256
from hatch_build import full_version
from relay.version import __version__
from tests.support.paths import ROOT
from tests.support.waiting import patience

SOURCE = Source("1.2.3", "c" * 40, 1_700_000_000, "https://git.example/relay.git")


class Checkout:
    """A repository with one commit of version 1.2.3."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "relay").mkdir()
        (folder / "relay" / "version.py").write_text('NUMBER = "1.2.3"\n', encoding="utf-8")
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--message", "First")

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_clean_tag_is_a_source(checkout: Checkout) -> None:
    checkout.git("tag", "v1.2.3")
    checkout.git("remote", "add", "origin", "https://user:secret@git.example/relay.git")

    source = read_source(checkout.folder)

    assert (source.version, source.tag, source.commit) == ("1.2.3", "v1.2.3", checkout.git("rev-parse", "HEAD"))
    assert source.seconds == int(checkout.git("show", "--no-patch", "--format=%ct"))
    assert source.origin == "https://git.example/relay.git"


@pytest.mark.parametrize(
    ("remote", "origin"),
    [
        ("", ""),
        ("/home/ada/relay", ""),
        ("../relay", ""),
        ("file:///home/ada/relay", ""),
        ("git@git.example:relay.git", "git@git.example:relay.git"),
        ("ssh://git@git.example/relay.git", "ssh://git.example/relay.git"),
    ],
)
def test_the_origin_names_neither_a_login_nor_a_folder(remote: str, origin: str) -> None:
    assert public_url(remote) == origin


@pytest.mark.parametrize("name", ["relay/version.py", "new.txt"])
def test_a_dirty_checkout_is_refused_by_the_files_name(checkout: Checkout, name: str) -> None:
    checkout.git("tag", "v1.2.3")
    with (checkout.folder / name).open("a", encoding="utf-8") as file:
        file.write("# changed\n")

    with pytest.raises(ReleaseRefused, match=rf"^the checkout differs from its commit: {name}\. "):
        read_source(checkout.folder)


@pytest.mark.parametrize(("tag", "message"), [(None, "it has no tag"), ("v1.2.2", r"its tags are v1\.2\.2")])
def test_a_commit_without_its_versions_tag_is_refused(checkout: Checkout, tag: str | None, message: str) -> None:
    if tag:
        checkout.git("tag", tag)

    with pytest.raises(ReleaseRefused, match=rf"is not version 1\.2\.3 of relay/version\.py: {message}.*git tag"):
        read_source(checkout.folder)


def test_outside_a_repository_nothing_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "relay").mkdir()
    (tmp_path / "relay" / "version.py").write_text('NUMBER = "1.2.3"\n', encoding="utf-8")
    with pytest.raises(ReleaseRefused, match="not a git repository"):
        read_source(tmp_path)


def test_the_command_ends_with_2_and_one_line(checkout: Checkout) -> None:
    """In a copy of the scripts whose repository is not this one."""
    script = f"import sys; from deploy.release import __main__ as m; m.ROOT = m.Path({str(checkout.folder)!r})\n"
    command = [sys.executable, "-c", script + "sys.exit(m.main())", "check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("no release: commit ")
    assert done.stderr.count("\n") == 1


def test_between_two_releases_a_version_names_its_commit(checkout: Checkout, tmp_path: Path) -> None:
    assert full_version(checkout.folder) == "1.2.3"
    file = checkout.folder / "relay" / "version.py"
    file.write_text('NUMBER = "1.3.0.dev0"\n', encoding="utf-8")
    commit = checkout.git("rev-parse", "--short=8", "HEAD")
    assert full_version(checkout.folder) == f"1.3.0.dev1+g{commit}"
    within = checkout.folder / "unpacked"
    shutil.copytree(checkout.folder / "relay", within / "relay")
    assert full_version(within) == "1.3.0.dev0"
    with pytest.raises(
        ReleaseRefused, match=r"Write 1\.3\.0 there, in client/openoutbox/version\.py and pyproject\.toml"
    ):
        read_source(checkout.folder)


def test_a_version_without_git_is_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "relay").mkdir()
    (tmp_path / "relay" / "version.py").write_text('NUMBER = "1.3.0.dev0"\n', encoding="utf-8")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert full_version(tmp_path) == "1.3.0.dev0"
    monkeypatch.setenv("PATH", "")
    assert full_version(tmp_path) == "1.3.0.dev0"
    monkeypatch.setenv("OPENOUTBOX_VERSION", "1.3.0.dev8+g1")
    assert full_version(tmp_path) == "1.3.0.dev8+g1"


def test_a_release_tags_the_version_before_it(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = checkout.git("rev-parse", "HEAD")
    assert tag_earlier(checkout.folder) == []  # its commit is of another repository
    monkeypatch.setitem(EARLIER, "v0.1.0", commit)
    assert tag_earlier(checkout.folder) == ["v0.1.0"]
    assert checkout.git("rev-parse", "v0.1.0^{commit}") == commit
    assert tag_earlier(checkout.folder) == []


def test_the_lock_is_a_list_of_packages() -> None:
    packages = {package.name: package for package in locked_packages(ROOT / "deploy" / "image" / "requirements.lock")}
    assert {"psycopg", "confluent-kafka", "redis"} <= packages.keys()
    assert packages["psycopg"].version.startswith("3.")
    assert all(len(digest) == 64 for package in packages.values() for digest in package.sha256)


def layer(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_an_image_is_a_list_of_packages_too(tmp_path: Path) -> None:
    """Two layers: the second one installs a package of Debian again, and removes another one."""
    first = {"var/lib/dpkg/status": "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\n"}
    second = {
        "var/lib/dpkg/status": "Package: libc6\nStatus: install ok installed\nVersion: 2.36-10\n\n"
        "Package: less\nStatus: deinstall ok config-files\nVersion: 1\n",
        "opt/relay/lib/python3.12/site-packages/nats_py-2.16.0.dist-info/METADATA": "Name: nats_py\nVersion: 2.16.0\n",
        "opt/relay/lib/python3.12/site-packages/nats/METADATA": "Name: other\nVersion: 1\n",
    }
    archive = tmp_path / "image.tar"
    with tarfile.open(archive, "w") as image:
        manifest = json.dumps([{"Layers": ["1.tar", "2.tar"]}]).encode()
        for name, content in {"1.tar": layer(first), "2.tar": layer(second), "manifest.json": manifest}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            image.addfile(member, io.BytesIO(content))

    assert installed_packages(archive) == [Package("deb", "libc6", "2.36-10"), Package("pypi", "nats-py", "2.16.0")]


def test_a_bill_of_materials_names_every_package_and_depends_on_the_source_alone() -> None:
    packages = [Package("deb", "libc6", "2.36-10"), Package("pypi", "nats-py", "2.16.0", ("a" * 64,))]
    text = document(SOURCE, "image.tar.gz", ComponentType.CONTAINER, packages)

    assert document(SOURCE, "image.tar.gz", ComponentType.CONTAINER, packages) == text
    assert document(replace(SOURCE, commit="d" * 40), "image.tar.gz", ComponentType.CONTAINER, packages) != text
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    urls = ["pkg:deb/debian/libc6@2.36-10", "pkg:pypi/nats-py@2.16.0"]
    assert sorted(component["purl"] for component in bill["components"]) == urls
    (root,) = [dependency for dependency in bill["dependencies"] if dependency["ref"] == "image.tar.gz"]
    assert sorted(root["dependsOn"]) == urls


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    (tmp_path / "SHA256SUMS").write_text(checksums([tmp_path / "a.whl"]), encoding="utf-8")

    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "a.whl: OK\n"


def test_the_provenance_names_files_commit_base_and_locks(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    base = default_base((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    text = provenance(SOURCE, [tmp_path / "a.whl"], root=ROOT, base=base, builder="urn:builder", started=started)

    statement = json.loads(text)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    digest = checksums([tmp_path / "a.whl"]).split()[0]
    assert statement["subject"] == [{"name": "a.whl", "digest": {"sha256": digest}}]
    definition, details = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    materials = {material["uri"]: material["digest"] for material in definition["resolvedDependencies"]}
    assert materials["git+https://git.example/relay.git@refs/tags/v1.2.3"] == {"gitCommit": "c" * 40}
    name, _, expected = base.partition("@sha256:")
    assert materials[f"oci://{name}"] == {"sha256": expected}
    assert {"file:deploy/image/requirements.lock", "file:deploy/image/build.lock"} <= materials.keys()
    assert (details["builder"], details["metadata"]["startedOn"]) == ({"id": "urn:builder"}, "2026-01-02T03:04:05Z")


ENGINE = """#!/bin/sh
while [ $# -gt 0 ]; do
  if [ "$1" = --output ]; then out=$2; fi
  shift
done
test -z "$out" || cp {archive} "$out"
"""


@pytest.mark.packages
def test_a_release_has_the_relay_and_the_client_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "DIST", tmp_path / "dist")
    image = tmp_path / "image.tar"
    with tarfile.open(image, "w") as archive:
        member = tarfile.TarInfo("manifest.json")
        member.size = len(manifest := b'[{"Layers": []}]')
        archive.addfile(member, io.BytesIO(manifest))
    engine = tmp_path / "engine"
    engine.write_text(ENGINE.format(archive=image), encoding="utf-8")
    engine.chmod(0o755)
    source = replace(SOURCE, version=__version__)

    base = "python@sha256:" + "b" * 64
    sign = f"{sys.executable} -c 'import shutil, sys; shutil.copy(sys.argv[1], sys.argv[1] + \".sig\")'"
    release._build(source, Namespace(engine=str(engine), image_flags="", base=base, builder="urn:builder", sign=sign))

    dist = tmp_path / "dist"
    wheels = [f"{name}-{__version__}-py3-none-any.whl" for name in ("openoutbox_client", "openoutbox_relay")]
    packages = [*wheels, *(f"{name}-{__version__}.tar.gz" for name in ("openoutbox_client", "openoutbox_relay"))]
    summed = [line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()]
    assert {*packages, *(f"{wheel}.cdx.json" for wheel in wheels)} < set(summed)
    assert {path.name for path in dist.iterdir()} == {*summed, "SHA256SUMS", "SHA256SUMS.sig"}
    assert (dist / "SHA256SUMS.sig").read_bytes() == (dist / "SHA256SUMS").read_bytes()
    subjects = json.loads((dist / "provenance.intoto.json").read_text())["subject"]
    assert set(packages) < {subject["name"] for subject in subjects}
    of_client, of_relay = (json.loads((dist / f"{wheel}.cdx.json").read_text()) for wheel in wheels)
    assert not of_client.get("components")
    (client,) = [one for one in of_relay["components"] if one["name"] == "openoutbox-client"]
    assert client["version"] == __version__
    assert client["hashes"] == [{"alg": "SHA-256", "content": sha256(dist / wheels[0])}]
    assert len(of_relay["components"]) > 10
