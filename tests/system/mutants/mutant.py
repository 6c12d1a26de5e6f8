"""A mutant: one line of the product, changed so that events would be lost, repeated, reordered or held up."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple


class StaleMutant(Exception):
    """The line that a mutant changes is no longer in its file, or no longer unique."""


class Mutant(NamedTuple):
    """``old`` is in the file exactly once; ``new`` takes its place and changes, or removes, a single line of it."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Test files, or tests, of which one must fail; the quickest first."""

    def apply(self, source: str) -> str:
        """The file's text with the mutant in. Raises StaleMutant."""
        count = source.count(self.old)
        if count != 1:
            raise StaleMutant(
                f"mutant {self.name!r}: {self.path} has its line {count} times instead of once: {self.old!r}. "
                "Correct the mutant in tests/system/mutants."
            )
        mutated = source.replace(self.old, self.new)
        before, after = source.splitlines(), mutated.splitlines()
        changes = [one for one in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes() if one[0] != "equal"]
        if len(changes) != 1 or changes[0][2] - changes[0][1] != 1 or changes[0][4] - changes[0][3] > 1:
            raise StaleMutant(f"mutant {self.name!r} changes more than one line of {self.path}, or none")
        return mutated
