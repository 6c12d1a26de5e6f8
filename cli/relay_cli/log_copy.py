"""``relay-cli log copy``: copy a log to another store, and compare the two."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli import log_options
from relay_cli.log_options import open_log
from relay_cli.output import moment, print_json, say
from relay_cli.shared_options import Json
from relay_cli.values import age

if TYPE_CHECKING:
    from relay.deliverylog import DeliveryLog
    from relay.deliverylog.copy import Comparison

_REPORT_EVERY = 1.0  # seconds between two lines of progress


def copy(
    source: Annotated[str, typer.Option("--from", metavar="URL", help="The log to read.")],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="The log to write; its tables must exist.")],
    after: Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Resume at this cursor.")] = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", parser=Path, help="File that stores the cursor.")
    ] = None,
    margin: Annotated[
        float,
        typer.Option("--margin", metavar="AGE", parser=age, help="How far to go back from the cursor: 1d, 6h, 0s."),
    ] = 86_400.0,
    compare: Annotated[bool, typer.Option(help="Read both logs at the end, and compare them.")] = True,
    as_json: Json = False,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Copy a log to another store, also of the other kind, and compare the two.

    After an interruption it resumes at the cursor of the --state file, or of --after. It goes back by --margin, because
    attempts are written late while a log is away; copying an entry twice is harmless. At the end it reads both logs up
    to the last attempt copied and prints their counts and digests. Exits with 1 when the target lacks an attempt or
    has another content.

    Example: relay-cli log copy --from postgres://old/db --to clickhouse://new/db --state copy.cursor
    """
    import asyncio

    start = after or (state.read_text().strip() if state is not None and state.exists() else None)
    run = _Copy(state, compare=compare, margin=timedelta(seconds=margin))
    asyncio.run(_with_both(source, target, schema, prefix, lambda old, new: run.between(old, new, start or None)))
    run.report(as_json=as_json)
    if run.comparison is not None and not run.comparison.complete:
        raise typer.Exit(1)


async def _with_both(
    source: str,
    target: str,
    schema: str | None,
    prefix: str | None,
    work: Callable[[DeliveryLog, DeliveryLog], Awaitable[None]],
) -> None:
    source_log = await open_log(source, schema, prefix)
    try:
        target_log = await open_log(target, schema, prefix)
        try:
            await work(source_log, target_log)
        finally:
            await target_log.close()
    finally:
        await source_log.close()


class _Copy:
    """One run of the command."""

    def __init__(self, state: Path | None, *, compare: bool, margin: timedelta) -> None:
        self._state = state
        self._compare = compare
        self._margin = margin
        self._said = 0.0
        self.attempts = 0
        self.quarantined = 0
        self.comparison: Comparison | None = None

    async def between(self, source: DeliveryLog, target: DeliveryLog, start: str | None) -> None:
        from relay.deliverylog.copy import compare_logs, copy_log

        until: datetime | None = None
        async for progress in copy_log(source, target, after=start, margin=self._margin):
            self.attempts, until = progress.attempts, progress.time
            self._save(progress.cursor)
            line = f"{progress.attempts} attempts, up to {moment(until)}; to resume: --after {progress.cursor}"
            self._say(line)
        self.quarantined = target.quarantined
        if self._compare and until is not None:
            self.comparison = await compare_logs(
                source,
                target,
                until=until,
                progress=lambda result: self._say(
                    f"compared {result.source.attempts} with {result.target.attempts} attempts"
                ),
            )

    def report(self, *, as_json: bool) -> None:
        """Print the result."""
        result = self.comparison
        differences = (
            {}
            if result is None
            else {"missing": result.missing, "different": result.different, "only_in_target": result.additional}
        )
        if as_json:
            sides = (
                {}
                if result is None
                else {
                    name: {"attempts": side.attempts, "digest": side.digest}
                    for name, side in (("source", result.source), ("target", result.target))
                }
            )
            print_json({"copied": self.attempts, "quarantined": self.quarantined, **sides, **differences})
            return
        say(f"copied {self.attempts} attempts")
        if self.quarantined:
            say(f"the target quarantined {self.quarantined}; relay-cli log quarantine list shows why", err=True)
        if result is None:
            return
        for name, side in (("source", result.source), ("target", result.target)):
            say(f"{name}: {side.attempts} attempts, digest {side.digest}")
        if any(differences.values()):
            counts = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in differences.items())
            say(f"{counts}{f'; the first is attempt {result.first}' if result.first else ''}")
        else:
            say("both are equal")

    def _save(self, cursor: str) -> None:
        if self._state is not None:  # in one step: an interrupted write must not lose the cursor
            partial = self._state.with_name(f"{self._state.name}.partial")
            partial.write_text(f"{cursor}\n")
            partial.replace(self._state)

    def _say(self, line: str) -> None:
        now = time.monotonic()
        if now - self._said >= _REPORT_EVERY:
            self._said = now
            say(line, err=True)
