"""The data sources as Spark's look-up finds them: they import nothing that may be missing until they are used.

Spark imports every module named ``pyspark_…`` of the Python path before it opens the first Python data source. An
exception in one of them fails the look-up, and with it every other Python source of the session. So those modules
define subclasses of ``LateSource``, which import this package's sources, and their libraries, when Spark uses them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import pyspark
from pyspark.sql.datasource import DataSource

from relay.core.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        SimpleDataSourceStreamReader,
    )
    from pyspark.sql.types import StructType

_LOWEST_SPARK = (4, 1)
_LOWEST_PYTHON = (3, 11)
_ADVICE = "Driver and executors need it: pip install 'psycopg[binary]' pyarrow numpy pandas"


class LateSource(DataSource):
    """A data source that passes every call to the source that it names."""

    format: ClassVar[str]
    module: ClassVar[str]
    """Where the source is, below this package."""
    source: ClassVar[str]
    """The source's class."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return cls.format

    def schema(self) -> StructType | str:
        """The source's schema."""
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """The source's reader."""
        return self._source().reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The source's writer."""
        return self._source().writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The source's reader of a stream."""
        return self._source().streamReader(schema)

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        """The source's other reader of a stream."""
        return self._source().simpleStreamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """The source's writer of a stream."""
        return self._source().streamWriter(schema, overwrite)

    def _source(self) -> DataSource:
        """The source. Raises ConfigError, which names what is missing."""
        _check_version("Python", _LOWEST_PYTHON, sys.version.split()[0])
        _check_version("Spark", _LOWEST_SPARK, pyspark.__version__)
        try:
            source: type[DataSource] = getattr(import_module(f"relay.spark.{self.module}"), self.source)
        except ImportError as error:
            raise ConfigError(f'format("{self.format}"): {error}. {_ADVICE}') from error
        return source(self.options)


def _check_version(what: str, lowest: tuple[int, int], version: str) -> None:
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < lowest:
        raise ConfigError(
            f"the formats openoutbox, openoutbox_eventstore and openoutbox_deliverylog need {what} "
            f"{lowest[0]}.{lowest[1]} or newer, on the driver and the executors; this is {what} {version}"
        )
