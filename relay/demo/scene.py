"""The order of events in the demonstration: servers up, work, wait for the last arrival, add up, clean up.

One that runs until Ctrl-C has more to look at: events that fail, the delivery log, and the console.

Everything that is started is on one stack, which is unwound whatever happens, the consumer and the workload first, the
database last. A Ctrl-C or SIGTERM ends the work early; a second one during the clean-up is ignored, since it would
leave processes behind.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rich.console import Console

from relay.demo.consumer import count_arrivals
from relay.demo.display import Display, describe, say, summary
from relay.demo.ledger import Ledger, LedgerTally
from relay.demo.workload import LARGEST_MESSAGE, TOPICS, count_by_status, create_orders, place_orders
from relay.localservers.broker import EmbeddedBroker
from relay.localservers.daemon import ConsoleServer, RelayDaemon, migrate, migrate_log
from relay.localservers.postgres import PostgresServer
from relay.localservers.waiting import wait_until

_REFRESH = 0.1  # seconds
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DRAIN_WITHIN = 30.0  # seconds from the last commit to the last arrival, at most
_LEAVE_WITHIN = 5.0  # the same after Ctrl-C, when an operator may have paused the outbox
_EXTENSIONS = ("console", "fleet", "pause")


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How long and how fast. ``seconds`` None: until Ctrl-C, with a console and events that fail."""

    seconds: float | None
    transactions_per_second: float

    @property
    def lasting(self) -> bool:
        """Whether it runs until Ctrl-C."""
        return self.seconds is None


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs while the demonstration does."""

    postgres: PostgresServer
    broker: EmbeddedBroker
    daemon: RelayDaemon
    console: ConsoleServer | None
    topics: dict[str, list[int]]


def run(options: DemoOptions, console: Console) -> bool:
    """Run the demonstration and show it; whether the sums agree. Raises ServerFailed if something does not start."""
    stopping = threading.Event()
    with ExitStack() as stack:
        with _interrupted_by_signals():
            stage = _set_up(stack, options, console)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: stopping.set())
        return _play(stage, options, console, stopping)


def _set_up(stack: ExitStack, options: DemoOptions, console: Console) -> Stage:
    say(console, "starting PostgreSQL ...")
    postgres = stack.enter_context(PostgresServer(durable=True))
    say(console, "creating the outbox table ...")
    migrate(postgres.url, postgres.folder, _EXTENSIONS if options.lasting else ())
    create_orders(postgres.url)
    broker = stack.enter_context(EmbeddedBroker())
    topics = broker.create_topics(TOPICS)
    settings = {
        "STORAGE_URL": postgres.url,
        "PUBLISHER_TYPE": "kafka",
        "PUBLISHER_URL": broker.url,
        "POLL_INTERVAL": "50ms",
        "RELAY_ID": "demo",
    }
    if options.lasting:
        migrate_log(postgres.url, postgres.folder)
        settings |= {"KAFKA_BATCH_BYTES": str(LARGEST_MESSAGE), "DELIVERY_LOG_URL": postgres.url}
    say(console, "starting the relay ...")
    daemon = stack.enter_context(RelayDaemon(settings))
    say(console, "the relay runs with " + " ".join(f"{name}={value}" for name, value in settings.items()))
    if not options.lasting:
        return Stage(postgres, broker, daemon, None, topics)
    say(console, "starting the console ...")
    server = stack.enter_context(ConsoleServer({"STORAGE_URL": postgres.url, "DELIVERY_LOG_URL": postgres.url}))
    return Stage(postgres, broker, daemon, server, topics)


def _play(stage: Stage, options: DemoOptions, console: Console, stopping: threading.Event) -> bool:
    if stage.console is not None:
        _show_addresses(stage, stage.console, console)
    ledger, end_of_consumer = Ledger(), threading.Event()
    url, rate = stage.postgres.url, options.transactions_per_second
    with ThreadPoolExecutor(2) as threads:
        try:
            consumer = threads.submit(count_arrivals, stage.broker.url, stage.topics, ledger, end_of_consumer)
            workload = threads.submit(place_orders, url, ledger, rate, stopping, trouble=options.lasting)
            with Display(console) as display:
                _watch([consumer, workload], ledger, display, options.seconds, stopping)
            stopping.set()
            workload.result()
            _drain(ledger, consumer, _LEAVE_WITHIN if options.lasting else _DRAIN_WITHIN)
        finally:
            stopping.set()
            end_of_consumer.set()
    return _conclude(ledger.tally(), stage, console)


def _watch(
    threads: list[Future[None]], ledger: Ledger, display: Display, seconds: float | None, stopping: threading.Event
) -> None:
    begin = time.monotonic()
    elapsed = 0.0
    while (seconds is None or elapsed < seconds) and not stopping.wait(_REFRESH):
        elapsed = time.monotonic() - begin
        display.update(elapsed, ledger.tally())
        if any(thread.done() for thread in threads):
            return


def _drain(ledger: Ledger, consumer: Future[None], seconds: float) -> None:
    """Wait for the last arrival. What has not come by then is in the sums as missing."""
    try:
        wait_until(lambda: ledger.complete() or consumer.done(), seconds)
    except TimeoutError:
        return
    if consumer.done():
        consumer.result()


def _conclude(tally: LedgerTally, stage: Stage, console: Console) -> bool:
    stage.daemon.stop()  # so that its last outcomes are written before they are counted
    rows = count_by_status(stage.postgres.url)
    summary(console, describe(tally) | {f"rows {status}": str(count) for status, count in sorted(rows.items())})
    lasting = stage.console is not None
    agreed = tally.accounts_for(rows) if lasting else tally.sums_agree and rows == {"DELIVERED": tally.committed}
    waiting = ", or waits or is dead in the table" if lasting else ""
    verdict = (
        f"every committed event arrived{waiting}; none of a rolled-back transaction did"
        if agreed
        else "THE COUNTS DO NOT AGREE; the relay's log ends with:\n" + stage.daemon.log_tail()
    )
    say(console, verdict)
    return agreed


def _show_addresses(stage: Stage, server: ConsoleServer, console: Console) -> None:
    say(console, f"console: {server.url}")
    for path in ("healthz", "readyz", "stats", "metrics"):
        say(console, f"relay: {stage.daemon.url}/{path}")
    say(console, f"broker (Kafka protocol): {stage.broker.url}, topics {', '.join(stage.topics)}")
    say(console, f"{stage.postgres.bin / 'psql'} {stage.postgres.url}")
    say(console, "Ctrl-C ends it")


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """SIGTERM ends the start as Ctrl-C does: by an exception that unwinds what has been started."""
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    except BaseException:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise
