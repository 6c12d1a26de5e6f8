"""The Dockerfile, its locks and pyproject.toml agree; nothing is downloaded."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from relay.version import __version__
from tests.support.paths import ROOT
from tests.support.servers import container
from tests.support.servers.container import tools
from tests.support.waiting import patience

LOCKS = ROOT / "deploy" / "image"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OURS = "openoutbox-relay"
CLIENT = "openoutbox-client"
"""Built into a wheel beside the relay: no entry of the lock."""


@cache
def locked(name: str) -> dict[str, str]:
    """The versions of a lock, by package. Every entry has a hash, and no entry names a server."""
    text = (LOCKS / name).read_text(encoding="utf-8")
    assert "://" not in text
    versions = {}
    for entry in re.split(r"\n(?=[a-z0-9])", text):
        pin, hashes = entry.split("\n", 1)
        assert re.match(r"    --hash=sha256:[0-9a-f]{64}", hashes), pin
        package, version = re.fullmatch(r"([a-z0-9.-]+)==(\S+?)(?: ;.*)? \\", pin).groups()  # type: ignore[union-attr]
        versions[package] = version
    return versions


def image_extras() -> list[str]:
    (names,) = re.findall(r"^IMAGE_EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    return list(names.split())


def development_extras() -> list[str]:
    (names,) = re.findall(r"^EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    return list(names.split(","))


def group(name: str) -> Iterator[Requirement]:
    """What a group of dependencies needs, with the groups that it includes."""
    for each in PROJECT["dependency-groups"][name]:
        if isinstance(each, str):
            yield Requirement(each)
        else:
            yield from group(each["include-group"])


def required(extras: list[str]) -> Iterator[Requirement]:
    """What the package needs with these extras; an extra may name others of its own."""
    project = PROJECT["project"]
    texts = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    for requirement in map(Requirement, texts):
        if requirement.name == OURS:
            yield from required(sorted(requirement.extras))
        elif requirement.name != CLIENT:
            yield requirement


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("requirements.lock", list(required(image_extras()))),
        ("build.lock", list(map(Requirement, PROJECT["dependency-groups"]["build"]))),
        ("../development.lock", [*required(development_extras()), *group("dev")]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_lock_pins_what_pyproject_requires(lock: str, requirements: list[Requirement]) -> None:
    versions = locked(lock)
    wrong = [
        f"{requirement} is locked at {versions.get(canonicalize_name(requirement.name))}; run make lock"
        for requirement in requirements
        if not requirement.specifier.contains(versions.get(canonicalize_name(requirement.name), "0.dev0"))
    ]
    assert requirements
    assert wrong == []


def test_the_lock_holds_what_its_packages_require_themselves() -> None:
    """Read from those packages that are installed here in the locked version; others may require something else."""
    versions = locked("requirements.lock")
    installed = {canonicalize_name(each.name): each for each in metadata.distributions()}
    missing = set()
    for package in (name for name, each in installed.items() if each.version == versions.get(name)):
        for requirement in map(Requirement, installed[package].requires or []):
            environment = {**default_environment(), "extra": ""}
            if requirement.marker is None or requirement.marker.evaluate(environment):  # type: ignore[arg-type]
                missing |= {canonicalize_name(requirement.name)} - versions.keys()
    assert missing == set()


def test_the_wheel_is_built_with_the_locked_backend() -> None:
    assert {Requirement(text).name for text in PROJECT["build-system"]["requires"]} <= locked("build.lock").keys()


def test_the_image_holds_no_more_than_a_relay_needs() -> None:
    assert image_extras() == ["all", "console", "otel", "clickhouse"]
    too_large = {"pyspark", "pandas", "numpy", "pyarrow", "matplotlib", "chdb", "grpcio", "pytest", "pip"}
    assert locked("requirements.lock").keys() & too_large == set()


def test_the_base_is_an_argument_with_a_digest() -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"[a-z./]+/python:3\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}", "${BASE}"]


def test_the_label_names_this_version() -> None:
    assert f"ARG VERSION={__version__}\n" in DOCKERFILE
    assert 'org.opencontainers.image.version="${VERSION}"' in DOCKERFILE
    assert 'org.opencontainers.image.source="${SOURCE}"' in DOCKERFILE


def test_what_the_programs_import_is_compiled(tmp_path: Path) -> None:
    """The list also says that every module of the package can be imported, but for those that it leaves out."""
    script = str(LOCKS / "modules.py")
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, timeout=patience(), check=True)
    files = done.stdout.decode().splitlines()
    assert {str(ROOT / "relay/app/run.py"), str(ROOT / "cli/relay_cli/stats.py")} <= set(files)
    libraries = {file.partition("site-packages/")[2].split("/")[0] for file in files} - {""}
    assert {"confluent_kafka", "nats", "redis", "pamqp", "psycopg", "typer", "uvicorn"} <= libraries
    assert libraries & {"pyspark", "fastapi", "opentelemetry", "pandas"} <= {"opentelemetry"}  # imported by redis-py


@pytest.mark.parametrize(
    ("user", "programs", "message"),
    [(1000, {"apt-get"}, "needs root"), (0, set(), "no apt-get")],
    ids=["not root", "not Debian"],
)
def test_a_machine_that_cannot_build_images_skips_and_says_so(
    user: int, programs: set[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda name: name if name in programs else None)

    with pytest.raises(pytest.skip.Exception, match=message):
        tools()

    assert "NO CONTAINER IMAGE WAS BUILT OR TESTED" in capsys.readouterr().out


def test_a_machine_that_could_and_fails_to_install_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: name if name == "apt-get" else None)
    monkeypatch.setattr(container, "_fails", lambda *command: "no network" if "apt-get" in command else "")

    with pytest.raises(pytest.fail.Exception, match="apt-get update failed: no network"):
        tools()
