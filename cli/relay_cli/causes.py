"""``relay-cli causes``: what is broken, since when, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.output import one_line, plural, print_json, say
from relay_cli.screen import columns, wrapped
from relay_cli.shared_options import Json, StorageUrl, Table, read_settings, storage_of

if TYPE_CHECKING:
    from relay.outbox.admin.causes import Cause

app = single_command()

_MOST_TYPES = 3  # that a line names


@app.command("causes", context_settings=HELP)
def command(context: typer.Context, table: Table = None, storage_url: StorageUrl = None, as_json: Json = False) -> None:
    """Show what is broken, since when and what to do: first what holds up events, then why events fail, by cause.

    First come pauses, a lag, absent relays, destinations that do not flow (extension fleet), prune, the xmin horizon,
    dead letters of the inbox and streams that a subscription has set aside. Then dead and retrying events by cause: the
    code, and the error with numbers, ids and quoted parts folded to #. Of very many events a sample is read.
    relay-cli replay --cause takes the dead events of one; relay-cli show EVENT_ID says why one event is not delivered.

    Exit codes: 0 done, also if nothing is broken, 1 the database or the table fails, 2 wrong usage.

    Example: relay-cli causes
    """
    from relay.app.broken import read_state
    from relay.outbox.admin.explain import read_causes

    settings = read_settings(context, storage_url, table, only={"EVENT_STORE_SCHEMA"})
    url, name = storage_of(settings)
    findings = read_state(url, name, settings.event_store_schema).findings
    failing = read_causes(url, name)
    if as_json:
        print_json({"findings": [finding.answer() for finding in findings], **failing.answer()})
        return
    width = columns()
    for finding in findings:
        say(wrapped(one_line(f"{finding.level}: {finding.message}"), width, "  "))
        say(wrapped(one_line(f"  -> {finding.advice}"), width, "     "))
    for cause in failing.causes:
        say(wrapped(one_line(_line(cause)), width, "  "))
        say(wrapped(one_line(f"  -> {cause.step}"), width, "     "))
    if not failing.complete:
        say(wrapped(failing.sample, width, "  "))
    if not findings and not failing.causes:
        say("nothing is broken")


def _line(cause: Cause) -> str:
    counts = [f"{count} {what}" for count, what in ((cause.dead, "dead"), (cause.retrying, "retrying")) if count]
    named = ", ".join(list(cause.types)[:_MOST_TYPES])
    more = len(cause.types) - _MOST_TYPES
    types = f"{named} and {plural(more, 'other type')}" if more > 0 else named
    error = ": ".join(filter(None, (cause.code, cause.error))) or "no error"
    keys = f", {plural(len(cause.keys), 'key')}" if cause.keys else ""
    times = f"since {one_line(cause.first)}, last {one_line(cause.last)}"
    return f"{', '.join(counts)}: {error} (type {types}{keys}; {times})"
