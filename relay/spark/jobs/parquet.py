"""Parquet as the jobs write it.

A task keeps the row group that it is writing in memory, beside what it reads and sorts. At Parquet's own 128 MiB a few
tasks at a time need more than the 1 GiB that Spark gives a driver or an executor unless it is told otherwise, and the
job dies of it when it has come to its first large file: so row groups are smaller here.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, DataFrameWriter

ROW_GROUP_BYTES: Final = 16 << 20


def kept(frame: DataFrame, path: str) -> DataFrame:
    """The frame as files at ``path``, in place of what is there; reading it again does not compute it again."""
    writing(frame).mode("overwrite").parquet(path)
    return frame.sparkSession.read.schema(frame.schema).parquet(path)


def writing(frame: DataFrame) -> DataFrameWriter:
    """The frame's writer, for ``parquet(path)``."""
    return frame.write.option("parquet.block.size", str(ROW_GROUP_BYTES))
