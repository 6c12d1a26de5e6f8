"""``relay-cli kafka-setup``: what KAFKA_TRANSACTIONS needs of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.output import one_line, plural, print_json, say
from relay_cli.shared_options import DryRun, Json, StorageUrl, Table, read_settings

if TYPE_CHECKING:
    from relay.brokers.kafka.setup import KafkaNeeds, SetUp

app = single_command()

PublisherUrl = Annotated[
    str | None,
    typer.Option(
        "--publisher-url", metavar="URL", help="Kafka, with an administrator's login, instead of PUBLISHER_URL."
    ),
]
Principal = Annotated[
    str | None,
    typer.Option(metavar="TYPE:NAME", help="Who the relay is to Kafka.", show_default="the user of the URL"),
]


@app.command("kafka-setup", context_settings=HELP)
def command(
    context: typer.Context,
    publisher_url: PublisherUrl = None,
    principal: Principal = None,
    table: Table = None,
    dry_run: DryRun = False,
    storage_url: StorageUrl = None,
    as_json: Json = False,
) -> None:
    """Make what KAFKA_TRANSACTIONS=true needs of Kafka: the topic of proofs, and ACLs for the relay's login.

    The names follow from database, schema and table, or from KAFKA_TRANSACTIONS_PREFIX. It makes what is missing and
    connects to no database. --dry-run prints commands of Kafka's own tools and connects to nothing. Run it once for
    each table, as a login that may CREATE the topic and ALTER the cluster's ACLs; relay-cli check looks at the result
    as the relay's login.

    Exit codes: 0 done or there already, 1 Kafka refuses it or does not answer, 2 wrong usage, or a topic of proofs of
    another shape.

    Example: relay-cli kafka-setup --publisher-url kafka:9092 --principal User:relay --dry-run
    """
    from relay.app.publishers import options_of
    from relay.core.extras import requires

    only = ("PUBLISHER_URL", "PUBLISHER_TYPE", "KAFKA_TRANSACTIONS_PREFIX", "KAFKA_PASSWORD_COMMAND")
    overrides = {"PUBLISHER_URL": publisher_url, "PUBLISHER_TYPE": "kafka"}
    options = options_of(read_settings(context, storage_url, table, only, **overrides))
    with requires("kafka", "relay-cli kafka-setup"):
        from relay.brokers.kafka.setup import needs, set_up
    wanted = needs(options, principal)
    commands = list(wanted.commands())
    done = None if dry_run else set_up(options, wanted)
    if as_json:
        answer = {"topic": wanted.topic, "transactional_ids": wanted.transactional_ids, "principal": wanted.principal}
        print_json({**answer, "dry_run": dry_run, "commands": commands, "done": done and done._asdict()})
        return
    for line in commands if done is None else _lines(wanted, done):
        say(line)


def _lines(wanted: KafkaNeeds, done: SetUp) -> Iterator[str]:
    yield one_line(f"topic of proofs {wanted.topic}: {'made' if done.topic_made else 'there already'}")
    yield one_line(f"{wanted.principal}: {plural(done.acls, 'right')}" if done.acls else _without(done.open_to_all))


def _without(open_to_all: bool) -> str:
    return "no ACLs: the broker has no authorizer" if open_to_all else "no ACLs: name the relay's login by --principal"
