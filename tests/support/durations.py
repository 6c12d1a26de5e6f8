"""Where a run's time goes: the seconds of each folder and group, at the end of every run with many tests."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

_FEW = 200
"""Tests up to which a run prints no table: a developer's own runs of a few files."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print setup, call and teardown of all tests, summed by folder; seconds of all workers together.

    A group runs in one worker, so no run is shorter than its longest group.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    groups: defaultdict[str, float] = defaultdict(float)
    tests: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = _folder(report.nodeid)
                seconds[folder] += report.duration
                if group := report.nodeid.rpartition("]")[2].partition("@")[2]:
                    groups[group] += report.duration
                tests[folder] += report.when == "call"
    if tests.total() < _FEW:
        return
    terminalreporter.section("seconds by folder, over all workers")
    for folder, spent in sorted(seconds.items(), key=lambda each: -each[1]):
        terminalreporter.write_line(f"{spent:8.1f} s  {tests[folder]:5d} tests  {folder}")
    terminalreporter.write_line(f"{sum(seconds.values()):8.1f} s  {tests.total():5d} tests  in all")
    for group, spent in sorted(groups.items(), key=lambda each: -each[1]):
        terminalreporter.write_line(f"{spent:8.1f} s  group {group}")


def _folder(nodeid: str) -> str:
    parts = nodeid.partition("::")[0].split("/")[:-1]
    return "/".join(parts[: 3 if "system" in parts else 2])
