"""Commands that change many rows report what they have done, also when they end early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from relay.core.errors import OutboxError
from relay_cli.codes import INTERRUPTED
from relay_cli.output import Bar


@contextmanager
def reported(bar: Bar, report: Callable[..., None], has_changed: Callable[[], bool]) -> Iterator[None]:
    """Close the bar and call ``report(complete=...)`` after the work: after an error only where rows have changed.

    Ctrl-C ends the command with ``INTERRUPTED``.
    """
    try:
        yield
    except KeyboardInterrupt:
        bar.close()
        report(complete=False)
        raise typer.Exit(INTERRUPTED) from None
    except OutboxError:
        bar.close()
        if has_changed():
            report(complete=False)
        raise
    bar.close()
    report(complete=True)
