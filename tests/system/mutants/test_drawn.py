"""What a seed draws is the same each time, and can be tried."""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT
from tests.system.mutants.drawn import ROOMS, draw


def test_a_seed_draws_the_same_mutants_each_of_one_line_in_one_of_the_rooms() -> None:
    mutants = draw(ROOT, 7, 20)
    assert mutants == draw(ROOT, 7, 20) != draw(ROOT, 8, 20)
    assert len({mutant.name for mutant in mutants}) == 20
    for mutant in mutants:
        assert mutant.path.startswith(ROOMS)
        mutant.apply((ROOT / mutant.path).read_text(encoding="utf-8"))


def test_logging_annotations_and_imports_for_types_are_left_as_they_are(tmp_path: Path) -> None:
    for room in ROOMS:
        (tmp_path / room).mkdir(parents=True)
    source = 'if TYPE_CHECKING:\n    X = 1\nlogger.info("", 1 + 1)\nx: Literal[1] = f(2 < 3)\ndef g(a: L[1]): ...\n'
    (tmp_path / ROOMS[0] / "one.py").write_text(source, encoding="utf-8")
    lines = sorted(mutant.new.strip() for mutant in draw(tmp_path, 1, 100))
    assert lines == ["x: Literal[1] = f((2 <= 3))", "x: Literal[1] = f(2 < 4)", "x: Literal[1] = f(3 < 3)"]
