"""``relay-cli log quarantine``: what the delivery log could not store, and what to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_cli import log_options
from relay_cli.groups import command_group
from relay_cli.log_options import instant, with_store
from relay_cli.output import print_json, say
from relay_cli.shared_options import Json
from relay_cli.values import whole

if TYPE_CHECKING:
    from relay.deliverylog import QuarantinedEntry

_LIMIT = 100

app = command_group("List, retry and purge the entries that the log could not store.")


@app.command("list")
def list_entries(
    limit: Annotated[int, typer.Option("--limit", metavar="N", parser=whole(1), help="Maximum number.")] = _LIMIT,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """List quarantined entries with the reason, oldest first.

    Example: relay-cli log quarantine list --limit 20
    """
    from relay_cli.log_print import print_quarantine

    entries = with_store(url, schema, prefix, lambda store: store.list_quarantine(limit + 1))
    more = len(entries) > limit
    if as_json:
        print_json({"items": [_json(entry) for entry in entries[:limit]], "more": more})
        return
    print_quarantine(entries[:limit])
    if more:
        say("more entries are quarantined; raise --limit", err=True)


@app.command("retry")
def retry(
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Write all quarantined entries to the log again; those that are stored leave the quarantine.

    Use it when the reason is gone, for example after relay-cli log partitions ensure. Exits with 1 if entries remain.
    With PostgreSQL it needs the right to delete from the quarantine, which the log's owner has.

    Example: relay-cli log quarantine retry
    """
    result = with_store(url, schema, prefix, lambda store: store.retry_quarantine())
    if as_json:
        print_json(result._asdict())
    else:
        say(f"written: {result.written}, still quarantined: {result.remaining}")
    if result.remaining:
        raise typer.Exit(1)


@app.command("purge")
def purge(
    before: Annotated[
        str | None,
        typer.Option(
            "--before", metavar="TIME|AGE", help="Only those quarantined by then: 2026-03-10, or an age: 30d."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: Json = False,
    url: log_options.DeliveryLogUrl = None,
    schema: log_options.Schema = None,
    prefix: log_options.Prefix = None,
) -> None:
    """Delete quarantined entries. Pass --before or --all.

    Example: relay-cli log quarantine purge --before 30d
    """
    if (before is None) != every:
        raise typer.BadParameter("pass either --before TIME or --all")
    bound = None if before is None else instant(before)
    purged = with_store(url, schema, prefix, lambda store: store.purge_quarantine(bound))
    if as_json:
        print_json({"purged": purged})
    else:
        say(f"purged: {purged}")


def _json(entry: QuarantinedEntry) -> dict[str, Any]:
    fields = entry.fields or {"text": entry.text}
    return {"id": entry.id, "quarantined_at": entry.time, "reason": entry.reason, **fields}
