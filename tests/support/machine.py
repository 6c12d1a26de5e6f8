"""A machine without a cluster, an engine or systemd, on which the commands of docs/operate/deployment.md are followed.

``kubectl``, ``helm`` and ``systemctl`` are stood in for: they record objects, and really run the commands of jobs, pods
and units, with the variables of their Secrets or credentials, on the test's database. Helm's rendering is Helm's own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.cli.running import call_cli
from tests.support.documents import run_shell
from tests.support.paths import ROOT
from tests.support.servers.helm import render


class Machine:
    """Follows lines of shell in one folder; ``said`` collects what the commands printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self._secrets: dict[str, dict[str, str]] = {}
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._finished: set[str] = set()
        self._programs: dict[str, Callable[[list[str]], None]] = {
            "kubectl": lambda words: self._kubectl(words[2:] if words[:2] == ["-n", "outbox"] else words),
            "helm": self._helm,
            "systemctl": self._systemctl,
        }

    def follow(self, commands: str, **variables: str) -> None:
        """Run each line; one of another program runs in a shell."""
        for line in commands.replace("\\\n", " ").splitlines():
            words = shlex.split(line)
            if not words:
                continue
            if words[0] == "relay-cli":
                self._run(words, variables)
            elif words[0] in self._programs:
                self._programs[words[0]](words[1:])
            else:
                self.said.append(run_shell(line, ROOT, **variables))

    def object(self, kind: str, name: str) -> dict[str, Any]:
        """An object of the cluster; fails without one."""
        return self._objects[kind.lower(), name]

    def _run(self, words: list[str], variables: dict[str, str]) -> None:
        program, *arguments = words
        assert program.rpartition("/")[2] == "relay-cli", words
        done = call_cli(self.folder, *arguments, **variables)
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
        self.said.append(done.stdout)

    def _kubectl(self, words: list[str]) -> None:
        match words:
            case ["create", *rest]:
                self._create(rest)
            case ["delete", "job", name, "--ignore-not-found"]:
                self._finished.discard(name)
            case ["apply", "-f", path]:
                target = ROOT / path
                for file in sorted(target.glob("*.yaml")) if target.is_dir() else [target]:
                    self._apply(file.read_text(encoding="utf-8"))
            case ["wait", "--for=condition=complete", _, job]:
                assert job.removeprefix("job/") in self._finished, f"{job} has not run"
            case ["rollout", "status", deployment]:
                self.object(*deployment.split("/"))
            case ["exec", deployment, "--", *command]:
                pod = self.object("deployment", deployment.removeprefix("deploy/"))["spec"]["template"]["spec"]
                self._run(command, self._variables(pod))
            case _:
                raise AssertionError(f"kubectl {shlex.join(words)}: not known here")

    def _create(self, words: list[str]) -> None:
        match words:
            case ["namespace", "outbox"]:
                pass
            case ["secret", "generic", name, *files]:
                self._secrets[name] = dict(self._key(option) for option in files)
            case ["job", name, source]:
                cron = self.object("cronjob", source.removeprefix("--from=cronjob/"))
                self._job(name, cron["spec"]["jobTemplate"]["spec"]["template"]["spec"])
            case _:
                raise AssertionError(f"kubectl create {shlex.join(words)}: not known here")

    def _key(self, option: str) -> tuple[str, str]:
        key, file = option.removeprefix("--from-file=").split("=")
        return key, (self.folder / file).read_text(encoding="utf-8").strip()

    def _apply(self, text: str) -> None:
        for document in filter(None, yaml.safe_load_all(text)):
            name = document["metadata"]["name"]
            self._objects[document["kind"].lower(), name] = document
            if document["kind"] == "Job" and name not in self._finished:  # an unchanged job is not run again
                self._job(name, document["spec"]["template"]["spec"])

    def _job(self, name: str, pod: dict[str, Any]) -> None:
        (container,) = pod["containers"]
        self._run(container["command"], self._variables(pod))
        self._finished.add(name)

    def _variables(self, pod: dict[str, Any]) -> dict[str, str]:
        (container,) = pod["containers"]
        variables = {each["name"]: each.get("value", "pod-0") for each in container.get("env", [])}
        for source in container["envFrom"]:
            variables |= self._secrets[source["secretRef"]["name"]]
        return variables

    def _helm(self, words: list[str]) -> None:
        match words:
            case ["upgrade", name, chart, "--install", "--namespace", "outbox", "--values", file, "--wait"]:
                values = yaml.safe_load((self.folder / file).read_text(encoding="utf-8"))
                (answer,) = render(ROOT / chart, [values])
                assert "error" not in answer, answer
                assert answer["invalid"] == []
                self._finished.discard(f"{name}-migrate")
                assert "helm.sh/hook: pre-install,pre-upgrade" in answer["files"]["migrate.yaml"]
                for path in sorted(answer["files"], key=lambda path: path != "migrate.yaml"):
                    self._apply(answer["files"][path])
            case ["rollback", name, "--namespace", "outbox", "--wait"]:
                self.object("deployment", name)
            case _:
                raise AssertionError(f"helm {shlex.join(words)}: not known here")

    def _systemctl(self, words: list[str]) -> None:
        units = self.folder / "etc" / "systemd" / "system"
        match words:
            case ["daemon-reload"]:
                pass
            case ["enable", "--now", *names]:
                for name in names:
                    text = (units / name).read_text(encoding="utf-8")
                    assert "[Install]" in text
                    for path in re.findall(r"^LoadCredential=\S+:(\S+)$", text, re.MULTILINE):
                        self._credential(path)
            case ["start", name]:
                self._start((units / name).read_text(encoding="utf-8"))
            case _:
                raise AssertionError(f"systemctl {shlex.join(words)}: not known here")

    def _start(self, unit: str) -> None:
        credentials = dict(re.findall(r"^LoadCredential=(\S+):(\S+)$", unit, re.MULTILINE))
        variables = dict(re.findall(r"(\w+)=%d/(\S+)", unit))
        files = {name: str(self._credential(credentials[file])) for name, file in variables.items()}
        (line,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
        self._run(shlex.split(line), files)

    def _credential(self, path: str) -> Path:
        file = self.folder / path.lstrip("/")
        assert file.stat().st_mode & 0o077 == 0, f"{path} can be read by others"
        return file

    def answer(self) -> str:
        """All that was printed so far, on one page."""
        return "\n".join(self.said)
