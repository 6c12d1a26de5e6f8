"""A Prometheus that scrapes one relay often, with the rules of ``deploy/prometheus``; from the distribution."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

from relay.localservers.process import free_port
from tests.support.paths import ROOT
from tests.support.servers.debian import unpacked
from tests.support.waiting import patience, wait_until

_RULES = ROOT / "deploy" / "prometheus"
_CONFIG = """
global: {{ scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms }}
rule_files: ["{rules}/recording.yaml", "{rules}/alerts.yaml"]
scrape_configs:
  - job_name: openoutbox-relay
    static_configs: [{{ targets: ["{target}"] }}]
"""


def _program() -> str:
    """Path of the program, which comes in one package with promtool."""
    return shutil.which("prometheus") or str(unpacked("promtool", ["prometheus"]) / "usr/bin/prometheus")


class PrometheusServer:
    """Runs from entering to leaving the context."""

    def __init__(self, target: str) -> None:
        """``target`` is ``host:port`` of what is scraped."""
        self._target = target
        self._port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="prometheus-")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        folder = Path(self._folder.name)
        config = folder / "prometheus.yaml"
        config.write_text(_CONFIG.format(rules=_RULES, target=self._target), encoding="utf-8")
        options = (f"--config.file={config}", f"--storage.tsdb.path={folder}/data", "--enable-feature=exemplar-storage")
        address = f"--web.listen-address=127.0.0.1:{self._port}"
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen([_program(), *options, address], stdout=log, stderr=log)
        wait_until(lambda: self._answers("/-/ready"), what="Prometheus to be ready")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(patience())
        self._folder.cleanup()

    def query(self, expr: str) -> list[Any]:
        """The series of an instant query. Raises urllib.error.HTTPError for an invalid one."""
        series: list[Any] = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expr})}")["result"]
        return series

    def rules(self) -> list[dict[str, Any]]:
        """Every rule, with its health and last error."""
        return [rule for group in self._get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=patience(10)) as answer:
            return json.load(answer)["data"]

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=patience(10)) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
