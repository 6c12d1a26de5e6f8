"""Options of ``relay-cli store`` and ``tenant``, opening the event store, and printing subscriptions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from relay_cli.codes import INTERRUPTED, TERMINATED
from relay_cli.output import plural, print_json, say
from relay_cli.shared_options import outbox_of
from relay_cli.values import stream_id, tenant_id

if TYPE_CHECKING:
    from relay.eventstore import EventStore, SubscriptionState

T = TypeVar("T")

Schema = Annotated[str, typer.Option("--schema", help="The store's schema.")]
TenantId = Annotated[str, typer.Argument(metavar="TENANT", parser=tenant_id, help="The tenant's id, a UUID.")]

StreamId = Annotated[str, typer.Argument(metavar="STREAM", parser=stream_id, help="The stream's id, a UUID.")]


def with_store(
    context: typer.Context, storage_url: str | None, schema: str, work: Callable[[EventStore], Awaitable[T]]
) -> T:
    """Connect to the store, do the work, and close the store. Ctrl-C and SIGTERM end it without a message.

    They cancel the work, which then removes the file that it was writing.
    """
    import asyncio
    import contextlib
    import signal

    from relay.eventstore import EventStore

    url, _ = outbox_of(context, storage_url)

    async def run() -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- for mypy: this is a coroutine
        with contextlib.suppress(RuntimeError):  # outside the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with await EventStore.connect(url, schema=schema, max_connections=2) as store:
            return await work(store)

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except asyncio.CancelledError:
        raise typer.Exit(TERMINATED) from None


def print_subscription(state: SubscriptionState, *, as_json: bool) -> None:
    """Print a subscription, or part of one, on a line."""
    if as_json:
        print_json(state._asdict())
        return
    holder = f"held by {state.holder}" if state.active else "not active"
    lag = f"lag {plural(state.lag_events, 'event')}, {state.lag_seconds:.1f} s"
    number = "no part" if state.part is None else f"part {state.part[0]}/{state.part[1]}"
    part = "" if state.slots is None else f"  {number} ({state.slots} of 256 slots)"
    parked = f"  {plural(state.parked, 'stream')} parked" if state.parked else ""
    say(f"{state.name}{part}  position {state.position}  {lag}{parked}  {holder}")


def print_metrics(
    states: Iterable[SubscriptionState], context: typer.Context, storage_url: str | None, schema: str
) -> None:
    """Print the subscriptions as Prometheus reads them, labelled with the database and the schema."""
    from relay.app.subscriptions import readings
    from relay.postgres.url import database_name
    from relay.telemetry.prometheus import exposition_of

    url, _ = outbox_of(context, storage_url)
    say(exposition_of(lambda: readings(states, time.time(), database_name(url), schema)), nl=False)
