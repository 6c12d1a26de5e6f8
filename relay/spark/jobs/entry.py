"""The way into a job: its arguments first, then PySpark, which may be missing and takes seconds to import."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from relay.core.errors import ConfigError
from relay.core.extras import install_advice
from relay.spark.jobs.arguments import Arguments, CommandLine


def load(job: type[Arguments]) -> ModuleType:
    """The module ``job`` of a job. Raises ConfigError, naming the extra, without Spark's libraries."""
    try:
        return import_module(f"relay.spark.jobs.{job.name}.job")
    except ImportError as error:
        raise ConfigError(f"Spark's libraries are not installed ({error}). {install_advice('spark-local')}") from None


def start(job: type[Arguments]) -> int:
    """Run ``python -m relay.spark.jobs.NAME`` with the process's arguments; the exit code."""
    program = f"python -m relay.spark.jobs.{job.name}"
    CommandLine(job, program, sys.argv[1:])  # ends the process for --help
    try:
        module = load(job)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return int(module.main(program))
