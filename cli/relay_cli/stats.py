"""``relay-cli stats``: the backlog in figures."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.main import INTERRUPTED
from relay_cli.options import Json, StorageUrl, Table, outbox_of
from relay_cli.output import clear_screen, plural, print_json
from relay_cli.screen import columns, span, wrapped
from relay_cli.values import pause

if TYPE_CHECKING:
    from relay.outbox.admin.browse import Figures

app = single_command()

Watch = Annotated[
    float | None,
    typer.Option("--watch", metavar="DURATION", parser=pause, help="Read again at this interval, until Ctrl-C."),
]


@app.command("stats", context_settings=HELP)
def command(
    context: typer.Context,
    watch: Watch = None,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Show how many events wait, for how long, and how many are in flight and dead.

    The first line says it in words. Names are those of the relay's GET /stats; in_flight_count counts the leases of
    all relays. Alert on oldest_due_age_sec: scheduled and backed-off events are not late. With --json and --watch, one
    object per line.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage, 130 interrupted.

    Example: relay-cli stats --watch 2s
    """
    from relay.outbox.admin.browse import read_figures
    from relay.outbox.admin.connection import operating

    url, name = outbox_of(context, storage_url, table)
    try:
        with operating(url, name, "reading the backlog") as connection:
            _show(read_figures(connection, name), as_json=as_json, again=False)
            while watch is not None:
                sys.stdout.flush()
                time.sleep(watch)
                _show(read_figures(connection, name), as_json=as_json, again=True)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def stats_answer(figures: Figures) -> dict[str, object]:
    """The figures by the names of ``/stats``, without those that only a relay knows."""
    return {**figures.backlog.answer(), "in_flight_count": figures.in_flight}


def summary(figures: Figures) -> str:
    """The figures as a sentence."""
    backlog = figures.backlog
    waiting = backlog.pending_new + backlog.pending_retrying
    verb = "waits" if waiting == 1 else "wait"
    parts = [f"{plural(waiting, 'event')} {verb}" if waiting else "no event waits"]
    if waiting:
        due = backlog.oldest_due_age
        parts[0] += f", the oldest has been due for {span(due)}" if due > 0 else ", none is due yet"
    if backlog.pending_retrying:
        parts.append(f"{backlog.pending_retrying} after a failed attempt")
    parts.append(f"{figures.in_flight} in flight")
    parts.append(f"{backlog.dead} dead (relay-cli list --status dead)" if backlog.dead else "none dead")
    return "; ".join(parts)


def _show(figures: Figures, *, as_json: bool, again: bool) -> None:
    answer = stats_answer(figures)
    if as_json:
        print_json(answer)
        return
    if again:
        clear_screen()
    typer.echo(wrapped(summary(figures), columns(sys.stdout)))
    for name, value in answer.items():
        typer.echo(f"{name:<19} {value}")
