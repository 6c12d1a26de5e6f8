"""What is run again is the test that failed, by an id that a run without workers knows."""

from __future__ import annotations

import pytest

from tests.again import plain


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ("tests/a.py::test_b", "tests/a.py::test_b"),
        ("tests/a.py::test_b@aws", "tests/a.py::test_b"),
        ("tests/a.py::test_b[kafka]@conformance kafka", "tests/a.py::test_b[kafka]"),
        ("tests/a.py::test_b[u:p@host]@spark-cluster", "tests/a.py::test_b[u:p@host]"),
        ("tests/a.py::test_b[u:p@host]", "tests/a.py::test_b[u:p@host]"),
    ],
)
def test_the_group_is_no_part_of_the_id(failed: str, expected: str) -> None:
    assert plain(failed) == expected
