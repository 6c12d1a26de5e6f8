"""The files in ``deploy`` and the Dockerfile agree with the relay: variables, paths, time to stop, no privileges."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

from relay.app.destinations import read_plan
from relay.server.routes import application
from relay.settings.settings import Settings
from relay.settings.variables import NAMES
from tests.deploy.jobs import pods
from tests.server.test_server import ScriptedView
from tests.support.paths import ROOT
from tests.support.waiting import patience

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STOPPING_SECONDS = Settings.from_env({"STORAGE_URL": "postgres://db/app"}).shutdown_timeout
OURS = [name for name, service in COMPOSE.items() if service["image"] == "openoutbox-relay"]
UNITS = sorted(path.name for path in (DEPLOY / "systemd").glob("*.service"))
RELAYS = [name for name in OURS if "entrypoint" not in COMPOSE[name]]


def manifests() -> dict[str, dict[str, Any]]:
    """Every Kubernetes object, by its kind."""
    documents = [
        document
        for path in (DEPLOY / "kubernetes").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    return {document["kind"]: document for document in documents}


@pytest.mark.parametrize("service", RELAYS)
def test_a_relay_of_the_compose_file_warns_of_nothing_but_its_path_to_the_database(service: str) -> None:
    [warning] = Settings.from_env(COMPOSE[service]["environment"]).warnings
    assert warning.startswith("STORAGE_URL: the password goes to postgres over a path that is not verified")


@pytest.mark.parametrize("service", OURS)
def test_the_compose_file_sets_only_variables_that_exist(service: str) -> None:
    assert set(COMPOSE[service]["environment"]) <= set(NAMES)


@pytest.mark.parametrize("service", RELAYS)
def test_a_relay_of_the_compose_file_has_the_time_to_stop_and_no_privileges(service: str) -> None:
    definition = COMPOSE[service]

    assert int(definition["stop_grace_period"].removesuffix("s")) > STOPPING_SECONDS
    assert definition["read_only"] is True
    assert definition["cap_drop"] == ["ALL"]


def test_the_routed_relay_of_the_compose_file_sends_each_event_to_both_brokers() -> None:
    service = COMPOSE["relay-routed"]
    [(folder, mounted)] = [volume.removesuffix(":ro").split(":") for volume in service["volumes"]]
    variables = {name: value.replace(mounted, str(DEPLOY / folder)) for name, value in service["environment"].items()}
    plan = read_plan(Settings.from_env(variables))
    assert {name: own.publisher_type for name, own in plan.destinations.items()} == {"main": "kafka", "copy": "nats"}
    urls = [own.publisher_url.get_secret_value() for own in plan.destinations.values() if own.publisher_url is not None]
    assert {url.partition("//")[2].partition(":")[0] for url in urls} <= COMPOSE.keys()
    assert plan.fan_out
    assert "--with=fan-out" in COMPOSE["migrate"]["entrypoint"]


def test_the_compose_file_depends_on_services_that_it_has() -> None:
    assert {name for service in COMPOSE.values() for name in service.get("depends_on", {})} <= set(COMPOSE)


def test_kubernetes_gives_the_pods_no_privileges() -> None:
    for _, pod in pods():
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


def test_kubernetes_sets_variables_and_asks_for_paths_that_exist() -> None:
    pod = next(pod for name, pod in pods() if name.startswith("Deployment"))
    (container,) = pod["containers"]
    paths = {route.path for route in application(ScriptedView()).routes}  # type: ignore[attr-defined]

    assert {variable["name"] for variable in container["env"]} <= set(NAMES)
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} <= paths
    assert pod["terminationGracePeriodSeconds"] > STOPPING_SECONDS


def test_kubernetes_selects_the_pods_that_it_creates() -> None:
    deployment = manifests()["Deployment"]["spec"]
    budget = manifests()["PodDisruptionBudget"]["spec"]

    selector, labels = deployment["selector"]["matchLabels"], deployment["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    assert budget["selector"] == deployment["selector"]
    assert budget["maxUnavailable"] <= deployment["replicas"]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("this machine has no systemd-analyze")
    for unit in (DEPLOY / "systemd").iterdir():  # the program is not installed where the unit expects it
        text = re.sub(r"^(ExecStart=)\S+", r"\1/bin/true", unit.read_text(encoding="utf-8"), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text, encoding="utf-8")

    command = ["systemd-analyze", "verify", *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)

    complaints = [line for line in (done.stdout + done.stderr).splitlines() if str(tmp_path) in line]
    assert not complaints  # a misspelt key is a warning only: the exit code is 0


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_little_exposure(unit: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("this machine has no systemd-analyze")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(DEPLOY / "systemd" / unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure is not None, done.stderr
    assert float(exposure[1]) <= 1.5


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_passes_secrets_as_files_that_the_settings_read(unit: str, tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / unit).read_text(encoding="utf-8")
    credentials = dict(re.findall(r"^LoadCredential=([\w-]+):(\S+)$", text, re.MULTILINE))
    variables = dict(re.findall(r"(\w+_FILE)=%d/(\S+)", text))
    assert set(variables) <= set(NAMES)
    assert sorted(variables.values()) == sorted(credentials)
    assert "STORAGE_URL_FILE" in variables
    for name in credentials:
        (tmp_path / name).write_text("postgres://db/app\n" if name == "storage-url" else "nats://broker\n")
    paths = {name: str(tmp_path / file) for name, file in variables.items()}
    settings = Settings.from_env(paths)
    assert settings.storage_url is not None
    assert settings.storage_url.get_secret_value() == "postgres://db/app"


def test_systemd_gives_the_relay_the_time_to_stop() -> None:
    unit = (DEPLOY / "systemd" / "relay.service").read_text(encoding="utf-8")
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)

    assert int(seconds) > STOPPING_SECONDS


@pytest.mark.parametrize("file", ["Dockerfile", "deploy/spark/Dockerfile"])
def test_hadolint_finds_nothing_in_the_dockerfile(file: str) -> None:
    hadolint = shutil.which("hadolint", path=sysconfig.get_path("scripts")) or "hadolint"
    command = [hadolint, "--no-color", str(ROOT / file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_runs_the_relay_itself_as_a_numbered_user() -> None:
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", DOCKERFILE, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["relay"\]$', DOCKERFILE, re.MULTILINE)
    assert re.search(r'^\s+CMD \["relay", "--healthcheck"\]$', DOCKERFILE, re.MULTILINE)
