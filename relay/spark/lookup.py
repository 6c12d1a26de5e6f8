"""The data sources as Spark's look-up finds them: they import nothing that may be missing until they are used.

Spark imports every module named ``pyspark_…`` of the Python path before it opens the first Python data source. An
exception in one of them fails the look-up, and with it every other Python source of the session. So those modules
define subclasses of ``LateSource``, which import this package's sources, and their libraries, when Spark creates one.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import ClassVar

import pyspark
from pyspark.sql.datasource import DataSource

from relay.core.errors import ConfigError

_LOWEST_SPARK = (4, 1)
_LOWEST_PYTHON = (3, 11)
_ADVICE = "Driver and executors need it: pip install 'psycopg[binary]' pyarrow numpy pandas"


class LateSource(DataSource):
    """A data source whose instances are those of the source that it names."""

    format: ClassVar[str]
    module: ClassVar[str]
    """Where the source is, below this package."""
    source: ClassVar[str]
    """The source's class."""

    def __new__(cls, options: dict[str, str]) -> DataSource:  # type: ignore[misc]
        """The source. Raises ConfigError, which names what is missing."""
        _check_version("Python", _LOWEST_PYTHON, sys.version.split()[0])
        _check_version("Spark", _LOWEST_SPARK, pyspark.__version__)
        try:
            source: type[DataSource] = getattr(import_module(f"relay.spark.{cls.module}"), cls.source)
        except ImportError as error:
            raise ConfigError(f'format("{cls.format}"): {error}. {_ADVICE}') from error
        return source(options)

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return cls.format


def _check_version(what: str, lowest: tuple[int, int], version: str) -> None:
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < lowest:
        raise ConfigError(
            f"the formats openoutbox, openoutbox_eventstore and openoutbox_deliverylog need {what} "
            f"{lowest[0]}.{lowest[1]} or newer, on the driver and the executors; this is {what} {version}"
        )
