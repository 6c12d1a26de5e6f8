"""The spark-submit line of a job, for each kind of cluster: what ``relay-cli spark submit`` prints and runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relay.core.errors import ConfigError
from relay.spark.jobs.arguments import Arguments, CommandLine

_MEMORY: Final = "spark.executor.memoryOverhead=1g"
"""Python's own memory: ``batchsize`` rows, encoded, for each core of an executor."""
_IN_IMAGE: Final = "local:///opt/openoutbox"
"""Where the image of deploy/spark/kubernetes.yaml has the jobs' programs."""
_PASSWORD: Final = re.compile(r"://[^/@]*:[^@]*@")


@dataclass(frozen=True, slots=True)
class Submission:
    """A job for a cluster."""

    job: type[Arguments]
    arguments: Sequence[str]
    """The job's own."""
    master: str
    environment: str | None = None
    """A Python environment with this package, packed by venv-pack, that travels with the job."""
    image: str | None = None
    namespace: str | None = None
    packages: str | None = None
    settings: Sequence[str] = ()
    """Settings of Spark, ``NAME=VALUE``; they win over those that are added here."""
    program: str | None = None
    """The job's program on the cluster."""

    def command(self) -> list[str]:
        """The command and its arguments. Raises ConfigError for a password, an unknown master or a missing image.

        Ends the process for an unknown or missing argument of the job, as the job itself does.
        """
        line = CommandLine(self.job, f"relay-cli spark submit {self.job.name}", self.arguments)
        if any(_PASSWORD.search(argument) for argument in self.arguments) or line.shows_secret():
            raise ConfigError(
                "a URL with a password, or another secret: every user of the machine can read a command line; write it "
                "to a file that the driver can read, and give --url-file (of the job report --log-url-file; of Kafka's "
                "client --kafka-options-file)"
            )
        settings = [each for name in [*self._settings(), *self.settings] for each in ("--conf", name)]
        packages = ["--packages", self.packages] if self.packages else []
        options = ["--name", f"openoutbox-{self.job.name}", "--master", self.master, *self._mode(), *self._archives()]
        return ["spark-submit", *options, *packages, *settings, *self._program(), *self.arguments]

    def _mode(self) -> list[str]:
        if not self.master.startswith(("spark://", "local", "k8s://")) and self.master != "yarn":
            raise ConfigError(
                f"--master: {self.master!r} is none of spark://host:port, yarn, k8s://https://…, local[…]; for a Spark "
                f"Connect server run relay-cli spark {self.job.name} --remote sc://host:port"
            )
        return ["--deploy-mode", "cluster"] if self._kubernetes or self.master == "yarn" else []

    @property
    def _kubernetes(self) -> bool:
        return self.master.startswith("k8s://")

    def _archives(self) -> list[str]:
        return ["--archives", f"{self.environment}#environment"] if self.environment else []

    def _settings(self) -> list[str]:
        settings = [_MEMORY]
        if self.environment:
            python = "./environment/bin/python"
            settings.append(f"spark.pyspark.python={python}")
            if self.master == "yarn":
                settings.append(f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={python}")
        if self._kubernetes:
            if not self.image:
                raise ConfigError("--image: missing; Kubernetes needs an image with Spark, Python and this package")
            settings.append(f"spark.kubernetes.container.image={self.image}")
            settings += [f"spark.kubernetes.namespace={self.namespace}"] if self.namespace else []
        return settings

    def _program(self) -> list[str]:
        if self.program:
            return [self.program]
        if self._kubernetes:
            return [f"{_IN_IMAGE}/{self.job.name}.py"]
        return [str(Path(__file__).with_name("__main__.py")), self.job.name]
