"""``relay-cli store parked``: the streams that subscriptions have set aside, and what to do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from uuid import UUID

import typer

from relay.core.durations import time_text
from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_SCHEMA
from relay_cli.groups import command_group
from relay_cli.output import plural, print_json, say
from relay_cli.shared_options import Json, StorageUrl
from relay_cli.store_options import Schema, StreamId, TenantId, with_store
from relay_cli.values import stream_id, tenant_id

if TYPE_CHECKING:
    from relay.eventstore import EventStore, ParkedStream

_SHORT: Final = 80  # characters of an error in a list

app = command_group("List, retry and skip the streams that subscriptions have set aside.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The subscription.")]


@app.command("list")
def list_streams(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this subscription.")] = None,
    as_json: Json = False,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """List the streams that a subscription, or all, have set aside, oldest first.

    Example: relay-cli store parked list balances --schema bank
    """
    for stream in with_store(context, storage_url, schema, lambda store: store.list_parked(name)):
        print_json(stream._asdict()) if as_json else say(_line(stream))


def _line(stream: ParkedStream) -> str:
    state = "to be retried" if stream.retrying else f"{plural(stream.tries, 'attempt')}"
    error = " ".join(stream.error.split())[:_SHORT]
    place = f"{stream.subscription}  {stream.tenant_id} {stream.stream_id}  version {stream.version}"
    return f"{place}  since {time_text(stream.parked_at)}  {state}  {error}"


@app.command("show")
def show(
    context: typer.Context,
    name: Name,
    tenant: TenantId,
    stream: StreamId,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Print why a stream is set aside, then the event that failed, as JSON.

    Example: relay-cli store parked show balances TENANT STREAM
    """
    from relay.eventstore import UndecodableEvent

    async def work(store: EventStore) -> None:
        wanted = UUID(tenant), UUID(stream)
        parked = [one for one in await store.list_parked(name) if (one.tenant_id, one.stream_id) == wanted]
        if not parked:
            raise ConfigError(f"subscription {name!r} has not parked stream {stream} of tenant {tenant}")
        print_json(parked[0]._asdict())
        try:
            for event in await store.read_stream(tenant, stream, parked[0].version, limit=1):
                print_json(event._asdict())
        except UndecodableEvent as error:
            say(str(error), err=True)

    with_store(context, storage_url, schema, work)


@app.command("retry")
def retry(
    context: typer.Context,
    name: Name,
    tenant: Annotated[
        str | None, typer.Argument(metavar="[TENANT]", parser=tenant_id, help="Only a stream of this tenant.")
    ] = None,
    stream: Annotated[
        str | None, typer.Argument(metavar="[STREAM]", parser=stream_id, help="Only this stream.")
    ] = None,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Let the running consumer apply the parked events again: of one stream, or of all of a subscription.

    Example: relay-cli store parked retry balances
    """
    count = with_store(context, storage_url, schema, lambda store: store.retry_parked(name, tenant, stream))
    say(f"{plural(count, 'stream')} of {name} will be retried")


@app.command("skip")
def skip(
    context: typer.Context,
    name: Name,
    tenant: TenantId,
    stream: StreamId,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Give up the event that failed; the running consumer goes on with the next one of the stream.

    Example: relay-cli store parked skip balances TENANT STREAM
    """
    with_store(context, storage_url, schema, lambda store: store.skip_parked(name, tenant, stream))
    say(f"skipped one event of {stream}; what is behind it will be applied")
