"""The Helm chart: linted strictly, rendered with seven files of values, and held to the schemas of Kubernetes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from relay.console.access.access_options import access_options
from relay.console.serve import VARIABLES
from relay.outbox.extensions import extension_names
from relay.settings.settings import Settings
from relay.settings.variables import NAMES
from relay.version import __version__
from tests.deploy.chart import CHART, containers
from tests.deploy.jobs import DEPLOY, LOG_JOBS
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.helm import render
from tests.support.servers.promtool import promtool
from tests.support.waiting import patience

PLAIN = DEPLOY / "kubernetes"
CASES = {
    path.name.removesuffix("-values.yaml"): yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    for path in sorted((CHART / "ci").glob("*-values.yaml"))
}
WRITE = bool(os.environ.get("TEST_WRITE"))
"""Whether what is derived is written, instead of only compared."""
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject"}
"""Kinds of other projects, whose schemas Kubernetes does not have."""
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"replica": 3}, "replica"),
    ({"config": {"STORAGE_URL": "postgres://u:geheim@db/app"}}, "STORAGE_URL"),
    ({"config": {"SHUTDOWN_TIMEOUT": "30s"}}, "SHUTDOWN_TIMEOUT"),
    ({"migrate": {"with": ["wake-ups"]}}, "with"),
    ({"prune": {"deliveredDays": "7d"}}, "deliveredDays"),
    ({"image": {"digest": "sha256:1"}}, "digest"),
    ({"console": {"enabled": True}}, "no login is configured"),
    ({"console": {"config": {"CONSOLE_SECRET": "geheim"}}}, "CONSOLE_SECRET"),
]

Rendered = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def rendered() -> Rendered:
    """The answers of Helm for each file of values, then for those that must be refused."""
    names = [*CASES, *(f"refused {number}" for number in range(len(REFUSED)))]
    return dict(zip(names, render(CHART, [*CASES.values(), *(values for values, _ in REFUSED)]), strict=True))


def test_the_ca_and_what_is_added_reach_every_job(rendered: Rendered) -> None:
    found = [pair for document in objects(rendered["console"]) for pair in containers(document)]
    assert {container["name"] for container, _ in found} == {
        "relay",
        "migrate",
        "roles",
        "prune",
        "console",
        "maintain",
    }
    for container, pod in found:
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["ca"] == "/etc/openoutbox/ca", container["name"]
        assert mounts["cache"] == "/var/cache/openoutbox", container["name"]
        assert {"ca", "cache"} <= {volume["name"] for volume in pod["volumes"]}
        assert {"name": "ENVIRONMENT", "value": "development"} in container["env"]
        assert pod["enableServiceLinks"] is False


def test_the_scaler_counts_in_the_table_of_the_relay(rendered: Rendered) -> None:
    [scaler] = [each for each in objects(rendered["scaled"]) if each["kind"] == "ScaledObject"]
    assert 'FROM "orders"."outbox" WHERE' in scaler["spec"]["triggers"][0]["metadata"]["query"]


def test_the_roles_follow_the_migration_with_the_same_user(rendered: Rendered) -> None:
    [job] = [each for each in objects(rendered["console"]) if each["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    first, then = pod["initContainers"][0], pod["containers"][0]
    assert first["command"][:2] == ["relay-cli", "migrate"]
    assert then["command"] == ["relay-cli", "roles"]
    assert {"name": "DELIVERY_LOG_SCHEMA", "value": "orders_log"} in then["env"]
    assert (first["envFrom"], first["env"]) == (then["envFrom"], then["env"])


def objects(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for text in answer["files"].values():
        yield from filter(None, yaml.safe_load_all(text))


def kinds(answer: dict[str, Any], *, console: bool = False) -> dict[str, dict[str, Any]]:
    """The console's objects by their kind, or all others."""
    component = "app.kubernetes.io/component"
    return {
        each["kind"]: each
        for each in objects(answer)
        if (each["metadata"]["labels"][component] == "console") is console
    }


def plain_text(name: str, text: str) -> str:
    """A rendered file as it stands in ``deploy/kubernetes``: without the lines that a template leaves empty."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("# Source:")]
    return "\n".join([f"# Rendered from deploy/helm/openoutbox-relay/templates/{name}; edit that.", *lines]) + "\n"


pytestmark = pytest.mark.packages


@pytest.mark.parametrize("case", CASES)
def test_the_chart_is_accepted_by_helm_and_its_objects_by_kubernetes(rendered: Rendered, case: str) -> None:
    answer = rendered[case]
    assert answer.get("error") is None
    assert answer["lint"] == []
    assert answer["invalid"] == []
    assert set(answer["unknown"]) <= CUSTOM


def test_every_template_is_rendered_by_some_values(rendered: Rendered) -> None:
    templates = {path.name for path in (CHART / "templates").glob("*.yaml")}
    assert {name for case in CASES for name, text in rendered[case]["files"].items() if text.strip()} == templates


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_values_that_mean_nothing_are_refused(rendered: Rendered, number: int) -> None:
    error = rendered[f"refused {number}"]["error"]
    assert REFUSED[number][1] in error
    assert "geheim" not in error


def test_the_plain_files_are_what_helm_renders(rendered: Rendered) -> None:
    expected = {name: plain_text(name, text) for name, text in rendered["defaults"]["files"].items() if text.strip()}
    if WRITE:
        for path in PLAIN.glob("*.yaml"):
            path.unlink()
        for name, text in expected.items():
            (PLAIN / name).write_text(text, encoding="utf-8")
    assert {path.name: path.read_text(encoding="utf-8") for path in PLAIN.glob("*.yaml")} == expected


@pytest.mark.parametrize("case", CASES)
def test_the_pods_have_variables_that_exist_and_are_read(rendered: Rendered, case: str) -> None:
    deployment = kinds(rendered[case])["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {each["name"]: each.get("value", "pod") for each in container["env"]}
    assert set(variables) <= set(NAMES)
    urls = {"STORAGE_URL": "postgres://db/app"}
    if "DESTINATIONS_FILE" not in variables:
        urls["PUBLISHER_URL"] = f"{variables['PUBLISHER_TYPE']}://broker"
    settings = Settings.from_env(variables | urls)
    assert settings.warnings == ()
    assert pod["terminationGracePeriodSeconds"] > settings.shutdown_timeout
    assert settings.batch_bytes == (33_554_432 if case == "nats" else 64 << 20)


def test_routes_and_destinations_are_files_of_a_secret_that_is_mounted(rendered: Rendered) -> None:
    pod = kinds(rendered["routed"])["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    [mount], [volume] = container["volumeMounts"], pod["volumes"]
    assert (volume["name"], volume["secret"]) == (mount["name"], {"secretName": "orders-files"})
    files = {each["name"]: each.get("value", "") for each in container["env"] if each["name"].endswith("_FILE")}
    assert files.keys() == {"ROUTES_FILE", "DESTINATIONS_FILE"}
    assert all(path.startswith(f"{mount['mountPath']}/") for path in files.values())
    assert "PUBLISHER_TYPE" not in {each["name"] for each in container["env"]}


def test_every_job_has_a_secret_of_its_own(rendered: Rendered) -> None:
    for case in CASES:
        pods = [
            each["spec"]["jobTemplate"]["spec"]["template"] if each["kind"] == "CronJob" else each["spec"]["template"]
            for each in objects(rendered[case])
            if each["kind"] in ("Deployment", "Job", "CronJob")
        ]
        secrets = [pod["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"] for pod in pods]
        assert len(set(secrets)) == len(secrets) == {"bare": 1, "console": 5, "nats": 4}.get(case, 3)


def test_the_delivery_logs_months_are_created_by_its_owner(rendered: Rendered) -> None:
    (document,) = yaml.safe_load_all(rendered["nats"]["files"]["logpartitions.yaml"])
    containers = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert tuple(container["command"] for container in containers) == LOG_JOBS


def test_the_console_says_who_may_use_it_and_names_the_relays_table(rendered: Rendered) -> None:
    console = kinds(rendered["console"], console=True)
    (container,) = console["Deployment"]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert set(variables) <= VARIABLES
    secrets = {"STORAGE_URL": "postgres://db/app", "CONSOLE_OIDC_CLIENT_SECRET": "x" * 32}
    settings = Settings.from_env(variables | secrets)
    options = access_options(settings)
    assert (options.public, options.authenticates, options.url) == (True, True, "https://outbox.example.com")
    assert (str(settings.storage_table_name), settings.delivery_log_schema) == ("orders.outbox", "orders_log")
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "tokens"]
    assert str(options.tokens_file).startswith(f"{mount['mountPath']}/")
    pod = console["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert console["Service"]["spec"]["selector"].items() <= pod.items()
    assert not kinds(rendered["console"])["Service"]["spec"]["selector"].items() <= pod.items()


def test_the_migration_adds_every_extension() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["properties"]["migrate"]["properties"]["with"]["items"]["enum"] == extension_names()


def test_nodes_can_be_drained_while_the_broker_is_away(rendered: Rendered) -> None:
    budget = kinds(rendered["defaults"])["PodDisruptionBudget"]["spec"]
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert budget["selector"] == kinds(rendered["defaults"])["Deployment"]["spec"]["selector"]


def test_the_selectors_select_the_relays_pods_and_no_other(rendered: Rendered) -> None:
    objects = kinds(rendered["monitored"])
    relay = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    prune = objects["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        objects["Deployment"]["spec"]["selector"]["matchLabels"],
        objects["Service"]["spec"]["selector"],
        objects["PodMonitor"]["spec"]["selector"]["matchLabels"],
    ]
    assert all(selector.items() <= relay.items() and not selector.items() <= prune.items() for selector in selectors)
    everything = objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    assert everything.items() <= relay.items()
    assert everything.items() <= prune.items()


def test_the_number_of_relays_is_left_to_keda(rendered: Rendered) -> None:
    objects = kinds(rendered["scaled"])
    assert "replicas" not in objects["Deployment"]["spec"]
    assert objects["ScaledObject"]["spec"]["scaleTargetRef"]["name"] == objects["Deployment"]["metadata"]["name"]


@pytest.mark.postgres
def test_keda_counts_what_is_due_as_the_relays_user(rendered: Rendered, outbox: Outbox) -> None:
    (trigger,) = kinds(rendered["scaled"])["ScaledObject"]["spec"]["triggers"]
    outbox.fill("t", 2007)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DEAD' WHERE ctid > '(1,0)'")
    outbox.database.run("UPDATE openoutbox_events SET available_at = now() + interval '1 hour' WHERE ctid = '(0,1)'")
    outbox.database.run("VACUUM ANALYZE openoutbox_events")
    due = outbox.counts()["PENDING"] - 1
    query = trigger["metadata"]["query"]
    outbox.database.run("CREATE SCHEMA orders")
    outbox.database.run("ALTER TABLE openoutbox_events SET SCHEMA orders")
    outbox.database.run("ALTER TABLE orders.openoutbox_events RENAME TO outbox")
    outbox.database.run("GRANT USAGE ON SCHEMA orders TO openoutbox_relay")
    with psycopg.connect(outbox.relay_url) as connection:
        assert connection.execute(query).fetchone() == (due,)
        (plan,) = connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchone() or ()
    assert "Seq Scan" not in json.dumps(plan), plan
    assert (query.rpartition("LIMIT ")[2], trigger["metadata"]["targetQueryValue"]) == ("16000000) AS due", "2000000")


@pytest.mark.prometheus
@pytest.mark.parametrize(("case", "days"), [("monitored", 14), ("bare", 7)])
def test_prometheus_accepts_the_rules_with_the_releases_retention(
    rendered: Rendered, tmp_path: Path, case: str, days: int
) -> None:
    groups = kinds(rendered[case])["PrometheusRule"]["spec"]["groups"]
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    command = [promtool(), "check", "rules", str(rules)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}
    assert f"> {days} * 86400 +" in alerts["OutboxNotPruned"]["expr"]
    shipped = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert [rule["alert"] for rule in shipped] == list(alerts)


def test_the_chart_has_the_rules_of_prometheus_and_the_version_of_the_relay() -> None:
    for name in ("alerts.yaml", "recording.yaml"):
        if WRITE:
            shutil.copyfile(DEPLOY / "prometheus" / name, CHART / "files" / name)
        assert (CHART / "files" / name).read_bytes() == (DEPLOY / "prometheus" / name).read_bytes()
    assert yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"] == __version__
