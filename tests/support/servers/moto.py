"""Runs moto's server, with a cheaper clock: ``python -m tests.support.servers.moto -H 127.0.0.1 -p PORT``.

And with the number of a topic's subscriptions, which is always 0 there.

At each request moto asks for the time once or more for every message of the queue, through two datetimes. With some
hundred messages that was nine tenths of its work.
"""

from __future__ import annotations

import time

import moto.sns.models
import moto.sqs.models
from moto.server import main


def _milliseconds(_: object = None) -> float:
    return time.time() * 1000


def _confirmed(topic: moto.sns.models.Topic) -> int:
    return [one.topic.arn for one in topic.sns_backend.subscriptions.values()].count(topic.arn)


if __name__ == "__main__":
    vars(moto.sqs.models)["unix_time_millis"] = _milliseconds
    vars(moto.sns.models)["Topic"].subscriptions_confimed = property(_confirmed, lambda *_: None)
    main()
