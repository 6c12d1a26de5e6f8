"""``python -m tests.system.mutants.drawn --seed 1 --number 100``: mutants that are drawn, not chosen.

A catalogue of chosen mistakes shows that the tests notice what was thought of. This draws its mistakes from every line
of ``relay/core``, ``relay/engine`` and ``relay/outbox``, runs the tests of the rooms that need no server, and lists
what survived: a line that no quick test holds, or that says the same either way. A seed draws other lines once the code
has changed: the share that is killed is what can be compared.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.paths import ROOT
from tests.system.mutants.mutant import Mutant, StaleMutant
from tests.system.mutants.trial import FAST, Trial, Verdict, attempt, control

ROOMS: Final = ("relay/core", "relay/engine", "relay/outbox")
TESTS: Final = ("tests/core", "tests/engine", "tests/outbox")

_OTHER: Final[dict[type[ast.AST], Any]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


class _Site(NamedTuple):
    """A line of a file, and what takes its place."""

    path: Path
    at: int
    after: str


def draw(root: Path, seed: int, number: int) -> list[Mutant]:
    """As many mutants of the rooms, each site of one as likely as any other."""
    sites = [site for room in ROOMS for path in sorted((root / room).rglob("*.py")) for site in _sites(path)]
    random.Random(seed).shuffle(sites)
    return list(islice(filter(None, (_mutant(root, site) for site in sites)), number))


def _sites(path: Path) -> Iterator[_Site]:
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for node in _judged(ast.parse(source)):
        if node.lineno == node.end_lineno and (replacement := _changed(node)) is not None:
            line = lines[node.lineno - 1].encode()  # the columns of a node count bytes
            after = line[: node.col_offset] + replacement.encode() + line[node.end_col_offset :]
            yield _Site(path, node.lineno - 1, after.decode())


def _mutant(root: Path, site: _Site) -> Mutant | None:
    """The mutant, with as many of the lines before as make its place the only one; None where that takes too many."""
    name = site.path.relative_to(root).as_posix()
    source = site.path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    title = f"{name}:{site.at + 1}: {lines[site.at].strip()} -> {site.after.strip()}"
    tests = tuple(sorted(TESTS, key=lambda one: not name.startswith(one.replace("tests", "relay"))))  # its own first
    for first in range(site.at, max(-1, site.at - 8), -1):
        before = "".join(lines[first : site.at])
        mutant = Mutant(title, name, before + lines[site.at], before + site.after, tests)
        try:
            compile(mutant.apply(source), name, "exec")
        except (StaleMutant, SyntaxError):
            continue
        return mutant
    return None


def _judged(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes that a mutant may change: no annotations, no calls of a logger, and nothing that only types import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith("logger."):
            continue
        if isinstance(node, ast.AnnAssign):
            yield from _judged(ast.Tuple([node.value] if node.value else []))
            continue
        if isinstance(node, ast.arg):
            continue
        if isinstance(node, ast.expr | ast.stmt):
            yield node
        yield from _judged(node)


def _changed(node: ast.expr | ast.stmt) -> str | None:
    """What stands in the node's place; None where nothing does."""
    if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp):
        return _with_other_operator(node)
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"bool({ast.unparse(operand)})"
        case ast.Constant(value=int() | float() as value):
            return str(not value if isinstance(value, bool) else value + 1)
        case ast.Return(value=ast.expr()):
            return "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete():
            return "pass"
    return None


def _with_other_operator(node: ast.Compare | ast.BoolOp | ast.BinOp) -> str | None:
    other = _OTHER.get(type(node.ops[0] if isinstance(node, ast.Compare) else node.op))
    if other is None:
        return None
    replaced = {"ops": [other(), *node.ops[1:]]} if isinstance(node, ast.Compare) else {"op": other()}
    return f"({ast.unparse(type(node)(**{**dict(ast.iter_fields(node)), **replaced}))})"


def _tried(mutant: Mutant) -> Trial:
    """Room by room, as most are killed by the first, which is their own."""
    for room in mutant.tests:
        trial = attempt(mutant._replace(tests=(room,)), marks=FAST)
        if trial.verdict is not Verdict.SURVIVED:
            break
    return trial


def main() -> int:
    """0 when each mutant could be tried; how many were killed is a figure, not a verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.mutants.drawn", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default: 1)")
    parser.add_argument("--list", action="store_true", help="list what would be tried")
    arguments = parser.parse_args()
    chosen = draw(ROOT, arguments.seed, arguments.number)
    if arguments.list:
        print(*(mutant.name for mutant in chosen), sep="\n")
        return 0
    trials = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for trial in pool.map(_tried, chosen):
            print(
                f"{trial.verdict} · {trial.name} · {trial.killer or trial.detail} · {trial.seconds:.0f} s", flush=True
            )
            trials.append(trial)
    trials = control(trials, FAST)
    killed, faulty = (sum(one.verdict is verdict for one in trials) for verdict in (Verdict.KILLED, Verdict.FAULTY))
    print(f"seed {arguments.seed}: {killed} of {len(trials)} killed, {faulty} could not be judged")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
