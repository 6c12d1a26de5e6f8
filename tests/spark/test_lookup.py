"""Spark's own look-up of data sources, in processes where something of this package's is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.servers.spark_python import LISTED

FORMATS = ["openoutbox", "openoutbox_deliverylog", "openoutbox_eventstore"]

_PREPARE = """
import importlib.abc, io, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
if {version!r}:
    import pyspark, pyspark.sql.datasource
    pyspark.__version__ = {version!r}
    del pyspark.sql.datasource.DataSourceStreamArrowWriter  # new in 4.1
"""
_LOOK_UP = """
from pyspark.serializers import SpecialLengths, read_int, write_int, write_with_length
from pyspark.sql.worker import lookup_data_sources
out, sent = io.BytesIO(), io.BytesIO()
look_up = getattr(lookup_data_sources, "_main", None)
if look_up is None:  # in Spark 4.1 the same function reads what every worker is sent first
    look_up = lookup_data_sources.main
    write_with_length(b"%d.%d" % sys.version_info[:2], sent)
    write_with_length(folder.encode(), sent)
    sent.write(bytes(4 + 1 + 4))  # no included files, no broadcasts
    write_int(SpecialLengths.END_OF_STREAM, sent)
    sent.seek(0)
look_up(sent, out)
out.seek(0)
names = []
for _ in range(read_int(out)):
    names.append(out.read(read_int(out)).decode())
    out.read(read_int(out))
print(sorted(names))
"""
_USE = """
from pyspark_openoutbox import DefaultSource
from relay.core.errors import ConfigError
try:
    DefaultSource({"url": "postgresql://u@h/d"}).schema()
except ConfigError as error:
    print(error)
"""


def run(program: str, folder: Path, missing: tuple[str, ...] = (), version: str = "") -> str:
    """What the program prints in an own process, beside another data source."""
    (folder / "pyspark_of_another.py").write_text(
        "from pyspark.sql.datasource import DataSource\nclass DefaultSource(DataSource):\n"
        "    @classmethod\n    def name(cls):\n        return 'of_another'\n"
    )
    text = (
        _PREPARE.format(missing=missing, version=version)
        + f"folder = {str(folder)!r}\nsys.path.insert(0, folder)\n"
        + program
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("missing", "version"), [((), ""), (("pyarrow", "numpy", "psycopg"), ""), ((), "4.0.2")])
def test_every_source_of_the_session_is_found_whatever_ours_lack(
    tmp_path: Path, missing: tuple[str, ...], version: str
) -> None:
    assert run(_LOOK_UP, tmp_path, missing, version) == str(sorted([*FORMATS, "of_another"]))


def test_a_source_that_is_used_says_what_is_missing(tmp_path: Path) -> None:
    """Not an extra of the relay's: one would bring a second PySpark into a cluster."""
    advice = "Driver and executors need it: pip install 'psycopg[binary]' pyarrow numpy pandas"
    for missing in ("pyarrow", "numpy", "psycopg"):
        assert run(_USE, tmp_path, (missing,)) == f"format(\"openoutbox\"): No module named '{missing}'. {advice}"
    assert run(_USE, tmp_path, version="4.0.2").endswith(
        "need Spark 4.1 or newer, on the driver and the executors; this is Spark 4.0.2"
    )


@pytest.mark.parametrize(
    "file",
    ["docs/guide/spark.md", "relay/spark/lookup.py", *(f"deploy/spark/{n}" for n in ("submit.sh", "Dockerfile"))],
)
def test_what_a_cluster_needs_is_the_same_list_everywhere(file: str) -> None:
    """PySpark is the cluster's. The image pins what pyproject.toml does."""
    found = re.search(r"psycopg(?:.|\n){0,90}?pandas\S*", (ROOT / file).read_text())
    assert found is not None
    needed = {name: text for name, text in LISTED.items() if name != "pyspark"}
    missing = [name for name, text in needed.items() if (text if "Dockerfile" in file else name) not in found.group()]
    assert not missing
