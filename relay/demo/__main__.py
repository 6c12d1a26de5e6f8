"""``python -m relay.demo``: exit code 0 when the sums agree, 1 when they do not or something did not start."""

from __future__ import annotations

import argparse
import sys

import psycopg
from confluent_kafka import KafkaException
from rich.console import Console

from relay.core.errors import OutboxError
from relay.demo.display import say
from relay.demo.scene import DemoOptions, run


def main() -> int:
    """Read the arguments, run the demonstration, return the exit code."""
    parser = argparse.ArgumentParser(
        "python -m relay.demo", description="Show the relay at work, with nothing but Python."
    )
    parser.add_argument("--seconds", type=_positive, default=15.0, help="how long transactions run (default 15)")
    parser.add_argument("--rate", type=_positive, help="transactions a second (default 200, with --keep 5)")
    parser.add_argument("--keep", action="store_true", help="run until Ctrl-C and print the addresses to look at")
    arguments = parser.parse_args()
    rate = arguments.rate or (5.0 if arguments.keep else 200.0)
    console = Console()
    try:
        return 0 if run(DemoOptions(None if arguments.keep else arguments.seconds, rate), console) else 1
    except KeyboardInterrupt:
        say(console, "interrupted while starting; everything is cleaned up")
        return 130
    except (OutboxError, psycopg.Error, KafkaException) as error:
        say(console, f"the demonstration failed: {error}")
        return 1


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number below a million")
    return value


if __name__ == "__main__":
    sys.exit(main())
