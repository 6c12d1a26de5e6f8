"""A process whose producers are fenced while messages to many partitions are in flight, and destroyed at once.

``python -m tests.system.chaos.fenced_in_flight ADDRESS TOPIC…``: prints how many had a fatal error.
"""

from __future__ import annotations

import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from relay.brokers.kafka.options import producer_config, transaction_config
from relay.brokers.kafka.transaction import Produced, Transaction, begin_epoch, destroy
from relay.core.event import OutboxEvent
from tests.brokers.harness.base import make_event
from tests.support.options import kafka_options

PRODUCERS = 8
TIMES = 4
FOR_EACH_TOPIC = 10


def produced(event: OutboxEvent) -> Produced:
    """As it is sent."""
    return event.event_type, event.payload, None, [], 0


def fenced(address: str, topics: list[str]) -> bool:
    """Whether a producer whose epoch another one ends, while it sends to all topics, had a fatal error."""
    options = kafka_options(address, transactions=True, write_timeout=5.0, batch_size=1)  # a request for each message
    config = producer_config(options) | transaction_config(options) | {"transactional.id": uuid.uuid4().hex}
    held = [begin_epoch(config, 30.0).producer]
    fencing = threading.Thread(target=partial(begin_epoch, config, 30.0))
    fencing.start()
    events = [make_event(topic) for topic in topics for _ in range(FOR_EACH_TOPIC)]

    def send() -> Transaction:
        return Transaction(events, lambda _: [], "", produced, list[None], seconds=5.0, receipts=False, limit=1_000_000)

    transaction = send()
    while transaction.error is None:
        transaction = send()
        transaction.run(held[0])
    destroy(held)
    fencing.join()
    return transaction.error.fatal


def main() -> None:
    """See the module's text."""
    address, topics = sys.argv[1], sys.argv[2:]
    with ThreadPoolExecutor(PRODUCERS) as threads:
        print(sum(threads.map(lambda _: fenced(address, topics), range(TIMES * PRODUCERS))))


if __name__ == "__main__":
    main()
