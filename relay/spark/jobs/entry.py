"""The way into a job: its arguments first, then PySpark, which may be missing and takes seconds to import."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from relay.core.errors import ConfigError
from relay.core.extras import install_advice
from relay.spark.jobs.arguments import Arguments, CommandLine


def arguments_of(name: str) -> type[Arguments]:
    """The arguments of the job of this name."""
    module = import_module(f"relay.spark.jobs.{name}.arguments")
    arguments: type[Arguments] = getattr(module, f"{name.capitalize()}Arguments")
    return arguments


def load(job: type[Arguments]) -> ModuleType:
    """The module ``job`` of a job. Raises ConfigError, naming the extra, without Spark's libraries."""
    try:
        return import_module(f"relay.spark.jobs.{job.name}.job")
    except ImportError as error:
        raise ConfigError(f"Spark's libraries are not installed ({error}). {install_advice('spark-local')}") from None


def start(name: str, words: list[str]) -> int:
    """Run a job as the program that spark-submit is given; the exit code."""
    job = arguments_of(name)
    program = f"{name}.py"
    CommandLine(job, program, words)  # ends the process for --help
    try:
        module = load(job)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return int(module.run(program, words))
