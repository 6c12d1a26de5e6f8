"""Drivers that live, drivers that are dead, and drivers of other machines."""

from __future__ import annotations

import subprocess
import sys

from relay.spark.write.liveness import is_dead, this_driver

PROGRAM = "from relay.spark.write.liveness import this_driver; print(this_driver(), flush=True); input()"


def test_the_driver_of_a_child_lives_while_its_parent_does() -> None:
    """The parent stands in for the JVM."""
    with subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PROGRAM!r}])"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        driver = parent.stdout.readline().strip()
        assert driver.split("/")[-2] == str(parent.pid)
        assert not is_dead(driver)
        parent.communicate("\n", timeout=30)
    assert is_dead(driver)


def test_a_process_id_that_is_used_again_is_another_driver() -> None:
    place, _, started = this_driver().rpartition("/")
    assert not is_dead(f"{place}/{started}")
    assert is_dead(f"{place}/{int(started) + 1}")


def test_about_other_machines_nothing_is_known() -> None:
    assert not is_dead("another-machine/1/1")
    assert not is_dead("nonsense")
