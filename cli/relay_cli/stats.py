"""``relay-cli stats``: the backlog in figures."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.apps import HELP, command_app
from relay_cli.options import Json, StorageUrl, Table, read_settings, storage_of
from relay_cli.output import INTERRUPTED, clear_screen, print_json

if TYPE_CHECKING:
    from relay.outbox.admin.browse import Figures

app = command_app()

Watch = Annotated[
    float | None,
    typer.Option("--watch", metavar="SECONDS", min=0.1, help="Read again every SECONDS, until Ctrl-C."),
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

    Names are those of the relay's GET /stats; in_flight_count counts the leases of all relays. Alert on
    oldest_due_age_sec: scheduled and backed-off events are not late. With --json and --watch, one object per line.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage, 130 interrupted.

    Example: relay-cli stats --watch 2
    """
    from relay.outbox.admin.browse import read_figures
    from relay.outbox.admin.connection import operating

    url, name = storage_of(read_settings(context, storage_url, table))
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


def _show(figures: Figures, *, as_json: bool, again: bool) -> None:
    answer = stats_answer(figures)
    if as_json:
        print_json(answer)
        return
    if again:
        clear_screen()
    for name, value in answer.items():
        typer.echo(f"{name:<19} {value}")
