"""``relay-cli store``: create an event store, append to it and read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_SCHEMA
from relay_cli.groups import command_group
from relay_cli.output import plural, print_json, print_pending, say
from relay_cli.shared_options import DryRun, Json, StorageUrl
from relay_cli.store_options import Schema, StreamId, TenantId, print_metrics, print_subscription, with_store
from relay_cli.store_parked import app as parked
from relay_cli.values import choice, choices, whole

if TYPE_CHECKING:
    from relay.eventstore import EventStore

_PAGE: Final = 1000
_POLL: Final = 0.5  # seconds

app = command_group("Create an event store, append to it and read it.")
app.add_typer(parked, name="parked")


class Positions(StrEnum):
    """How positions are assigned."""

    gapless = "gapless"
    settled = "settled"


@app.command("migrate")
def migrate(
    context: typer.Context,
    positions: Annotated[
        Positions,
        typer.Option(
            metavar="KIND",
            parser=choice(Positions),
            autocompletion=choices(Positions),
            help="gapless or settled. Set once; docs/guide/event-store.md explains the choice.",
        ),
    ] = Positions.gapless,
    notify: Annotated[bool, typer.Option(help="Whether appends send notifications.")] = True,
    dry_run: DryRun = False,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Create the store's tables and functions, or upgrade a store of an earlier release.

    Running it again changes only what differs. With --dry-run it prints the pending migrations and their SQL.

    Example: relay-cli store migrate --schema bank --positions settled
    """
    migration = with_store(
        context,
        storage_url,
        schema,
        lambda store: store.migrate(positions=positions.value, notify=notify, dry_run=dry_run),
    )
    if dry_run:
        if not (migration.plan.up_to_date and migration.notify_changed):
            print_pending(migration.plan, "the event store")
        if migration.notify_changed:
            say("-- notifications would be switched")
        return
    for pending in migration.plan.pending:
        say(f"applied migration {pending.number}: {pending.name}")
    say(f"event store in schema {schema}: positions {positions.value}, notify {'on' if notify else 'off'}")


class Access(StrEnum):
    """What a role may do."""

    reader = "reader"
    writer = "writer"
    subscriber = "subscriber"
    console = "console"


@app.command("grant")
def grant(
    context: typer.Context,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A role of the database.")],
    access: Annotated[
        Access,
        typer.Argument(
            metavar="ACCESS",
            parser=choice(Access),
            autocompletion=choices(Access),
            help="reader, writer, subscriber or console. A subscriber may also read; the console only looks.",
        ),
    ],
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Grant a role the rights to read, to append, to subscribe or to serve the console; it has none before.

    Example: relay-cli store grant bank_app writer
    """
    with_store(context, storage_url, schema, lambda store: store.grant(role, access.value))
    say(f"granted {access.value} to {role}")


@app.command("append")
def append(
    context: typer.Context,
    tenant: TenantId,
    stream: StreamId,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="What happened, for example MoneyDeposited.")],
    data: Annotated[str | None, typer.Option(help="The event's data, JSON.")] = None,
    meta: Annotated[str, typer.Option(help="The event's metadata, a JSON object.")] = "{}",
    expected: Annotated[
        str, typer.Option("--expected-version", metavar="N|any|none", help="The version the stream must have.")
    ] = "any",
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Append one event to a stream.

    Example: relay-cli store append TENANT STREAM MoneyDeposited --data '{"amount": 5}' --expected-version 3
    """
    from relay.eventstore import NewEvent

    metadata, version = _json("--meta", meta), _version(expected)
    if not isinstance(metadata, dict):
        raise ConfigError("--meta: not a JSON object")
    event = NewEvent(event_type, None if data is None else _json("--data", data), metadata)  # type: ignore[arg-type]
    result = with_store(context, storage_url, schema, lambda store: store.append(tenant, stream, [event], version))
    say(f"appended version {result.version} at position {result.last_sequence_num}")


@app.command("stream")
def stream(
    context: typer.Context,
    tenant: TenantId,
    stream: StreamId,
    first: Annotated[int, typer.Option("--from", metavar="N", parser=whole(1), help="The first version.")] = 1,
    last: Annotated[int | None, typer.Option("--to", metavar="N", parser=whole(1), help="The last version.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", parser=whole(1), help="Maximum number of events.")] = None,
    backward: Annotated[bool, typer.Option("--backward", help="Newest first.")] = False,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Print the events of a stream, one JSON object a line.

    Example: relay-cli store stream 0190b0a0-0000-7000-8000-000000000001 0190b0a0-0000-7000-8000-000000000002 --limit 10
    """

    async def work(store: EventStore) -> None:
        for event in await store.read_stream(tenant, stream, first, last, limit, backward=backward):
            print_json(event._asdict())

    with_store(context, storage_url, schema, work)


@app.command("delete-stream")
def delete_stream(
    context: typer.Context,
    tenant: TenantId,
    stream: StreamId,
    confirm: Annotated[
        str, typer.Option("--confirm", metavar="STREAM", help="The stream's id again, to confirm.")
    ] = "",
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Delete all events of a stream, as the owner of the store. Only an export can restore them.

    New events of the stream are numbered after the deleted ones. Rows of the outbox and backups are not changed.

    Example: relay-cli store delete-stream TENANT STREAM --confirm STREAM
    """
    from relay.eventstore.tenants import is_same_id

    if not is_same_id(confirm, stream):
        raise ConfigError(f"deleting a stream is irreversible; confirm with: --confirm {stream}")
    count = with_store(context, storage_url, schema, lambda store: store.delete_stream(tenant, stream, confirm=confirm))
    say(f"deleted {plural(count, 'event')} of {stream}")


@app.command("tail")
def tail(
    context: typer.Context,
    after: Annotated[int, typer.Option(metavar="N", parser=whole(0), help="The position after which to begin.")] = 0,
    tenants: Annotated[list[str] | None, typer.Option("--tenant", help="Only this tenant; repeatable.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only this type; repeatable.")] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more events, until Ctrl-C.")] = True,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Print the events of all tenants by position, one JSON object a line.

    Example: relay-cli store tail --type MoneyDeposited --no-follow
    """
    import asyncio

    from relay.eventstore import Checkpoint

    async def work(store: EventStore) -> None:
        position = Checkpoint(after)
        while True:
            events = await store.read_all(position, _PAGE, tenants or None, types or None)
            for event in events:
                print_json(event._asdict())
            position = events.checkpoint
            if not events:
                if not follow:
                    return
                await asyncio.sleep(_POLL)

    with_store(context, storage_url, schema, work)


@app.command("subscriptions")
def subscriptions(
    context: typer.Context,
    reset: Annotated[str | None, typer.Option(metavar="NAME", help="Reset this subscription to the beginning.")] = None,
    move: Annotated[str | None, typer.Option(metavar="NAME", help="Move this subscription to --to.")] = None,
    to: Annotated[
        int | None, typer.Option(parser=whole(0), metavar="POSITION", help="The position for --move.")
    ] = None,
    delete: Annotated[str | None, typer.Option(metavar="NAME", help="Delete it; its instances end.")] = None,
    as_json: Json = False,
    as_metrics: Annotated[
        bool, typer.Option("--prometheus", help="Print metrics, for example for node exporter's textfile collector.")
    ] = False,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """List the subscriptions with their lag; or reset, move or delete one.

    The lag counts events of all tenants and types after the position, up to 100,000. A subscription that is reset or
    moved goes on at its new position; its current batch can no longer be acknowledged. One that is consumed in parts
    is listed by part, and reset, moved and deleted with all its parts.

    Example: relay-cli store subscriptions --move balances --to 1000
    """
    if (move is None) != (to is None):
        raise ConfigError("--move and --to: pass both, for example --move balances --to 1000")
    if as_json and as_metrics:
        raise ConfigError("--json and --prometheus: pass one of them")
    positions = {name: position for name, position in ((reset, 0), (move, to)) if name and position is not None}

    async def work(store: EventStore) -> None:
        await _operate(store, positions, delete)
        states = await store.list_subscriptions()
        if as_metrics:
            print_metrics(states, context, storage_url, schema)
        else:
            for state in states:
                print_subscription(state, as_json=as_json)

    with_store(context, storage_url, schema, work)


async def _operate(store: EventStore, positions: Mapping[str, int], delete: str | None) -> None:
    """Move and delete subscriptions, all of which must exist."""
    known = {state.name for state in await store.list_subscriptions()}
    for name in (*positions, *filter(None, [delete])):
        if name not in known:
            raise ConfigError(f"subscription {name!r} does not exist; relay-cli store subscriptions lists them")
    for name, position in positions.items():
        await store.reset_subscription(name, position)
    if delete:
        await store.delete_subscription(delete)


def _json(name: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{name}: not JSON: {error}") from None


def _version(text: str) -> int:
    from relay.eventstore import ANY, NO_STREAM

    if text in ("any", "none"):
        return ANY if text == "any" else NO_STREAM
    if not text.isdecimal():
        raise ConfigError(f"--expected-version: {text!r}; write a number, any or none")
    return int(text)
