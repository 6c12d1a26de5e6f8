"""Commands that change many rows report what they have done, also when they end early."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

import typer

from relay.core.errors import OutboxError
from relay_cli.codes import INTERRUPTED
from relay_cli.output import Bar


class Sums(Protocol):
    """What a change in batches has done so far, or would do."""

    @property
    def exact(self) -> bool:
        """Whether all of it was counted."""


Done = TypeVar("Done", bound=Sums)


def prune_or_preview(
    preview: Callable[[], Done],
    prune: Callable[[Callable[[Done], None]], Done],
    report: Callable[..., None],
    count: Callable[[Done], int],
    *,
    first: Done | None,
    dry_run: bool,
) -> None:
    """Report what would be deleted, or delete it ``in_batches``: ``report(sums, dry_run=..., complete=...)``."""
    if dry_run:
        report(preview(), dry_run=True)
    else:
        in_batches(Bar("pruning"), prune, partial(report, dry_run=False), count, first=first, estimate=preview)


def in_batches(
    bar: Bar,
    work: Callable[[Callable[[Done], None]], Done],
    report: Callable[..., None],
    count: Callable[[Done], int],
    *,
    first: Done | None,
    estimate: Callable[[], Done],
) -> Done:
    """Do the work, which hands its sums on after each batch, and report: ``report(sums, complete=...)``.

    After an error only where rows have changed. Ctrl-C ends the command with ``INTERRUPTED``. ``first`` is what Ctrl-C
    reports before any batch; the estimate is made for a bar alone.
    """
    last, total = first, None

    def on_batch(sums: Done) -> None:
        nonlocal last
        last = sums
        bar.show(count(sums), total)

    try:
        if bar.possible:
            whole = estimate()
            total = count(whole) if whole.exact else None
        done = work(on_batch)
    except (KeyboardInterrupt, OutboxError) as error:
        bar.close()
        interrupted = isinstance(error, KeyboardInterrupt)
        if last is not None and (interrupted or count(last)):
            report(last, complete=False)
        if interrupted:
            raise typer.Exit(INTERRUPTED) from None
        raise
    bar.close()
    report(done, complete=True)
    return done
