"""A benchmark starts another relay as it is."""

from __future__ import annotations

from benchmarks.process import RelayProcess


def test_another_version_of_the_relay_imports_its_own_packages() -> None:
    """With this checkout on its path it would be this version, and every comparison equal."""
    environment = RelayProcess({"STORAGE_URL": "postgres://u@h/d"}, "/elsewhere/relay")._daemon._environment()
    assert environment is not None
    assert "PYTHONPATH" not in environment
