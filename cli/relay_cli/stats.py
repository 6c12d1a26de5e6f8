"""``relay-cli stats``: the backlog in figures."""

from __future__ import annotations

import itertools
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.codes import INTERRUPTED
from relay_cli.groups import HELP, single_command
from relay_cli.output import clear_screen, one_line, plural, print_json, say
from relay_cli.pause import pause_answer
from relay_cli.screen import columns, span, wrapped
from relay_cli.shared_options import Json, StorageUrl, Table, outbox_of
from relay_cli.values import pause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relay.core.finding import Finding
    from relay.outbox.admin.browse import Figures
    from relay.outbox.admin.connection import Connection
    from relay.outbox.admin.held import HeldEvents
    from relay.postgres.sql import TableName

app = single_command()

_REST = 4  # times as long as a reading took, until the next one: it may be slow where a horizon is held

Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        metavar="DURATION",
        parser=pause,
        help="Read again at this interval, or at four times what a reading takes, until Ctrl-C.",
    ),
]


@app.command("stats", context_settings=HELP)
def command(
    context: typer.Context,
    watch: Watch = None,
    table: Table = None,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Show how many events wait, for how long, how many are in flight and dead, and what is paused.

    One line for each pause says how many due events wait because of it, of the oldest 100000. Names are those of the
    relay's GET /stats; in_flight_count counts the leases of all relays. Alert on oldest_due_age_sec: scheduled,
    backed-off and paused events are not late. With --json and --watch, one object per line; pauses is null without
    SELECT on the table of the pauses, and oldest_due_age_sec then includes what is paused.

    Exit codes: 0 done, 1 the database or the table fails, 2 wrong usage, 130 interrupted.

    Example: relay-cli stats --watch 2s
    """
    from relay.outbox.admin.connection import operating

    url, name = outbox_of(context, storage_url, table)
    try:
        with operating(url, name, "reading the backlog") as connection:
            for again in itertools.chain([False], itertools.repeat(True)):
                began = time.monotonic()
                _show(_read(connection, name), as_json=as_json, again=again)
                if watch is None:
                    break
                sys.stdout.flush()
                time.sleep(max(watch, (time.monotonic() - began) * _REST))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


@dataclass(frozen=True, slots=True)
class StatsReading:
    """What one reading shows."""

    figures: Figures
    held: list[HeldEvents] | None
    """None when the pauses cannot be read."""
    problem: str = ""
    """Why not."""
    relays: list[dict[str, str]] | None = None
    """What living relays say of themselves and of their destinations; None when they cannot be read."""
    findings: Sequence[Finding] = ()
    """Those of ``relay-cli causes`` that these figures tell."""

    def answer(self) -> dict[str, object]:
        """The figures by the names of ``/stats``, without those that only a relay knows."""
        return {**self.figures.backlog.answer(), "in_flight_count": self.figures.in_flight}

    def pauses(self) -> list[dict[str, object]] | None:
        """The pauses as JSON."""
        if self.held is None:
            return None
        return [
            {**pause_answer(one.pause), "waiting_count": one.events, "waiting_at_least": one.at_least}
            for one in self.held
        ]

    def sentences(self) -> list[str]:
        """What holds up events, one sentence each; the summary has who is dead and who waits after a failure."""
        said = [
            one_line(f"{finding.level}: {finding.message}")
            for finding in self.findings
            if finding.subject not in {"dead", "retrying"}
        ]
        unread = [f"{self.problem}; oldest_due_age_sec includes what is paused"] if self.held is None else []
        return [*unread, *said]


def _read(connection: Connection, table: TableName) -> StatsReading:
    from relay.core.errors import SchemaError
    from relay.outbox.admin.browse import read_figures
    from relay.outbox.admin.held import read_held
    from relay.outbox.admin.overview import read_present
    from relay.outbox.admin.relays import read_members
    from relay.outbox.admin.trouble import troubles

    held, problem = None, ""
    try:
        held = read_held(connection, table)
    except SchemaError as error:  # a reader without that right has the figures all the same
        problem = str(error)
    members = None
    with suppress(SchemaError):
        members = [one for one in read_members(connection, table) or () if one.living]
    relays = None
    if members is not None:
        relays = [{"relay_id": one.relay_id, "state": one.state, "reason": one.reason} for one in members]
    figures = read_figures(connection, table, [one.pause for one in held or ()])
    findings = troubles(read_present(connection, table, figures, held or (), members or ()))
    return StatsReading(figures, held, problem, relays, findings)


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


def _show(stats: StatsReading, *, as_json: bool, again: bool) -> None:
    answer = stats.answer()
    if as_json:
        print_json({**answer, "pauses": stats.pauses(), "relays": stats.relays})
        return
    if again:
        clear_screen()
    for sentence in (summary(stats.figures), *stats.sentences()):
        say(wrapped(sentence, columns()))
    for name, value in answer.items():
        say(f"{name:<19} {value}")
