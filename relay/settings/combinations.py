"""What must hold between variables, and what is allowed but warned about at the start.

A rule yields findings; a finding names the variables it is about, so that a rule stays silent about variables whose
own value is wrong already. Pure: nothing is opened, resolved or connected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from relay.brokers import kinds
from relay.core.durations import format_duration
from relay.core.formats.choice import CLOUDEVENTS
from relay.core.origins import has_password
from relay.settings.missing import missing
from relay.settings.unverified import unverified_login
from relay.settings.variables import NAMES, Variables

_ENDPOINTS_ALONE = "HTTP_ENDPOINTS_FILE is set without PUBLISHER_TYPE or PUBLISHER_URL; write PUBLISHER_TYPE=http"
_BRIEF_LEASE = 10.0
"""Seconds; a relay without memory, a slow disk or a failover of the database pauses as long now and then."""


_SHORTEST_TRANSACTED = 3.0
"""Seconds; a third of it is Kafka's shortest transaction."""


class SettingIssue(NamedTuple):
    """One sentence about some variables."""

    variables: tuple[str, ...]
    text: str


def problems(settings: Variables, names: Collection[str] = ()) -> Iterator[SettingIssue]:
    """Everything between variables that keeps the relay from starting; ``names`` are those of all that are set."""
    if settings.storage_url is None:
        yield SettingIssue(("STORAGE_URL",), missing("STORAGE_URL", names))
    for rule in (_required, _publisher_type, _broker_scheme, _message_format, _one_or_several, _transactions):
        yield from rule(settings)


def _required(settings: Variables) -> Iterator[SettingIssue]:
    kind = kinds.find(settings.publisher_type)
    if settings.publisher_url is None and kind is not None:
        if kind.url_optional and settings.http_endpoints_file is not None:
            return
        yield SettingIssue(
            ("PUBLISHER_URL", "PUBLISHER_TYPE"),
            f"PUBLISHER_URL is not set, and PUBLISHER_TYPE={kind.name} needs it; write for example {kind.example}",
        )


def _publisher_type(settings: Variables) -> Iterator[SettingIssue]:
    """Refuse to guess: with a wrong guess, events would count as delivered although no broker has them."""
    if "publisher_type" in settings.model_fields_set:
        return
    if settings.publisher_url is None:
        if settings.http_endpoints_file is not None and settings.destinations_file is None:
            yield SettingIssue(("PUBLISHER_TYPE", "HTTP_ENDPOINTS_FILE"), _ENDPOINTS_ALONE)
        return
    if kinds.of_url(settings.publisher_url.get_secret_value()) is None:
        schemes = kinds.listed([f"{one.schemes[0]}://" for one in kinds.KINDS.values()])
        broken = "".join(f"; {reason}" for reason in kinds.of_others()[1].values())
        yield SettingIssue(
            ("PUBLISHER_TYPE", "PUBLISHER_URL"),
            "PUBLISHER_TYPE is not set, and the scheme of PUBLISHER_URL implies none; write PUBLISHER_TYPE="
            f"{kinds.listed(kinds.names())}, or a PUBLISHER_URL that begins with {schemes}{broken}",
        )


def _broker_scheme(settings: Variables) -> Iterator[SettingIssue]:
    kind = kinds.find(settings.publisher_type)
    if settings.publisher_url is None or kind is None:
        return
    scheme, separator, _ = settings.publisher_url.get_secret_value().strip().partition("://")
    implied = kinds.of_url(settings.publisher_url.get_secret_value())
    owner = "a database" if scheme.lower() in ("postgres", "postgresql") else implied.name if implied else ""
    if separator and owner not in ("", kind.name):
        yield SettingIssue(
            ("PUBLISHER_URL", "PUBLISHER_TYPE"),
            f"PUBLISHER_URL ({scheme}://…) is the address of {owner}, but PUBLISHER_TYPE is {kind.name}; change one of "
            "them",
        )


def _message_format(settings: Variables) -> Iterator[SettingIssue]:
    name, kind = settings.message_format, kinds.find(settings.publisher_type)
    if name in CLOUDEVENTS and settings.cloudevents_source is None:
        yield SettingIssue(
            ("MESSAGE_FORMAT", "CLOUDEVENTS_SOURCE"),
            f"CLOUDEVENTS_SOURCE is not set, and MESSAGE_FORMAT={name} needs it: every CloudEvent has a source; write "
            "a URI reference that names this outbox, for example /shop/orders",
        )
    if kind is not None and name != "openoutbox" and name not in kind.formats:
        able = [one.name for one in kinds.KINDS.values() if name in one.formats]
        yield SettingIssue(
            ("MESSAGE_FORMAT", "PUBLISHER_TYPE"),
            f"MESSAGE_FORMAT={name} is not for PUBLISHER_TYPE={kind.name}, only for {', '.join(able)}; choose another "
            "MESSAGE_FORMAT",
        )


def _one_or_several(settings: Variables) -> Iterator[SettingIssue]:
    both = {"publisher_url", "publisher_type"} & settings.model_fields_set
    if settings.destinations_file is not None and both:
        names = " and ".join(sorted(field.upper() for field in both))
        yield SettingIssue(
            ("DESTINATIONS_FILE", *sorted(field.upper() for field in both)),
            f"DESTINATIONS_FILE and {names} are both set; move that destination into the file, or unset one of them",
        )


def _transactions(settings: Variables) -> Iterator[SettingIssue]:
    """What KAFKA_TRANSACTIONS does not fit with."""
    if not settings.kafka_transactions:
        return
    for wrong, name, text in (
        (
            settings.publisher_type != "kafka" and settings.destinations_file is None,
            "PUBLISHER_TYPE",
            "needs PUBLISHER_TYPE=kafka",
        ),
        (settings.kafka_required_acks != "all", "KAFKA_REQUIRED_ACKS", "needs KAFKA_REQUIRED_ACKS=all"),
        (settings.lease_timeout < _SHORTEST_TRANSACTED, "LEASE_TIMEOUT", "needs a LEASE_TIMEOUT of 3s or more"),
    ):
        if wrong:
            yield SettingIssue(
                ("KAFKA_TRANSACTIONS", name),
                f"KAFKA_TRANSACTIONS=true {text}; change that, or unset KAFKA_TRANSACTIONS",
            )


def cautions(settings: Variables) -> Iterator[SettingIssue]:
    """Everything that is allowed, but is not done exactly as written or may surprise."""
    for rule in (
        _no_broker,
        _sizes,
        _delays,
        _weak_acks,
        _trimmed_streams,
        _unused,
        _short_streams,
        _unsigned,
        _unverified,
        _unused_commands,
        _ignored,
        _short_lease,
    ):
        yield from rule(settings)


def _no_broker(settings: Variables) -> Iterator[SettingIssue]:
    if settings.destinations_file is not None:
        return
    if settings.environment == "production" and not {"publisher_type", "publisher_url"} & settings.model_fields_set:
        yield SettingIssue(
            ("PUBLISHER_TYPE", "PUBLISHER_URL", "ENVIRONMENT"),
            "neither PUBLISHER_TYPE nor PUBLISHER_URL is set: no broker gets the events, and each row becomes "
            "DELIVERED once its event is printed on standard output. Set PUBLISHER_URL, or PUBLISHER_TYPE=stdout if "
            "you want this",
        )


def _sizes(settings: Variables) -> Iterator[SettingIssue]:
    if settings.max_in_flight < settings.batch_size:
        yield SettingIssue(
            ("MAX_IN_FLIGHT", "BATCH_SIZE"),
            f"MAX_IN_FLIGHT={settings.max_in_flight} is below BATCH_SIZE={settings.batch_size}; "
            "no claim will be larger than MAX_IN_FLIGHT",
        )


def _delays(settings: Variables) -> Iterator[SettingIssue]:
    if settings.retry_max_delay < settings.retry_base_delay:
        yield SettingIssue(
            ("RETRY_MAX_DELAY", "RETRY_BASE_DELAY"),
            f"RETRY_MAX_DELAY={format_duration(settings.retry_max_delay)} is below "
            f"RETRY_BASE_DELAY={format_duration(settings.retry_base_delay)}; every delay will be RETRY_MAX_DELAY",
        )


def _weak_acks(settings: Variables) -> Iterator[SettingIssue]:
    if settings.kafka_async:
        yield SettingIssue(
            ("KAFKA_ASYNC",),
            "KAFKA_ASYNC=true is ignored: events would count as delivered before the broker has them. "
            "Publishing does not wait between events in any case",
        )
    if settings.kafka_required_acks == "one":
        yield SettingIssue(
            ("KAFKA_REQUIRED_ACKS",),
            "KAFKA_REQUIRED_ACKS=one: an acknowledged event is lost if the partition's leader fails before others "
            "have it, and the producer is not idempotent; all is safer",
        )
    if settings.kafka_required_acks == "none":
        yield SettingIssue(
            ("KAFKA_REQUIRED_ACKS",),
            "KAFKA_REQUIRED_ACKS=none is raised to one: without any acknowledgement nothing could count as "
            "delivered; the producer is not idempotent; all is safer",
        )


def _trimmed_streams(settings: Variables) -> Iterator[SettingIssue]:
    names = settings.redis_maxlen_streams or settings.allowed_event_types
    if settings.publisher_type == "redis" and settings.redis_maxlen and not names:
        yield SettingIssue(
            ("REDIS_MAXLEN", "REDIS_MAXLEN_STREAMS", "ALLOWED_EVENT_TYPES", "PUBLISHER_TYPE"),
            "REDIS_MAXLEN trims no stream: an event names its stream, and could have entries of any stream removed; "
            "write patterns of the streams to trim into REDIS_MAXLEN_STREAMS, for example orders.*",
        )


def _unused(settings: Variables) -> Iterator[SettingIssue]:
    """What is set beside something that takes its place, or without what it is for."""
    if settings.redis_maxlen_streams and not settings.redis_maxlen:
        yield SettingIssue(
            ("REDIS_MAXLEN_STREAMS", "REDIS_MAXLEN"),
            "REDIS_MAXLEN_STREAMS is set but not used: REDIS_MAXLEN is not set, so no stream is trimmed",
        )
    if settings.publisher_type == "http" and settings.publisher_url is None and settings.http_secrets is not None:
        yield SettingIssue(
            ("HTTP_SECRETS", "PUBLISHER_URL", "PUBLISHER_TYPE"),
            "HTTP_SECRETS is set but not used: it signs requests to PUBLISHER_URL, which is not set; an endpoint of "
            "HTTP_ENDPOINTS_FILE has secrets of its own",
        )
    if settings.destinations_file is not None and "publisher_name" in settings.model_fields_set:
        yield SettingIssue(
            ("PUBLISHER_NAME", "DESTINATIONS_FILE"),
            "PUBLISHER_NAME is set but not used: DESTINATIONS_FILE names each destination",
        )


def _short_streams(settings: Variables) -> Iterator[SettingIssue]:
    maxlen = settings.redis_maxlen
    if settings.publisher_type == "redis" and maxlen is not None and maxlen < settings.max_in_flight:
        yield SettingIssue(
            ("REDIS_MAXLEN", "MAX_IN_FLIGHT", "PUBLISHER_TYPE"),
            f"REDIS_MAXLEN={maxlen} is below MAX_IN_FLIGHT={settings.max_in_flight}: the events that the relay sends "
            "together can remove one another before a consumer reads them; write at least MAX_IN_FLIGHT",
        )


def _unsigned(settings: Variables) -> Iterator[SettingIssue]:
    if settings.publisher_type == "http" and settings.publisher_url is not None and settings.http_secrets is None:
        yield SettingIssue(
            ("HTTP_SECRETS", "PUBLISHER_TYPE", "PUBLISHER_URL"),
            "HTTP_SECRETS is not set: requests to PUBLISHER_URL carry no signature, so the receiver cannot tell them "
            "from others'",
        )


def _logins(settings: Variables) -> Iterator[tuple[str, str, str, str]]:
    """Variable, kind and text of each address, and the variable of the command for its password, where that is set."""
    row = kinds.find(settings.publisher_type)
    of_kind = f"{row.prefixes[0]}PASSWORD_COMMAND" if row is not None and row.prefixes else ""
    for variable, kind, url, command in (
        ("STORAGE_URL", "postgres", settings.storage_url, "STORAGE_PASSWORD_COMMAND"),
        ("DELIVERY_LOG_URL", "log", settings.delivery_log_url, ""),
        ("PUBLISHER_URL", settings.publisher_type, settings.publisher_url, of_kind),
    ):
        if url is not None:
            is_set = getattr(settings, command.lower(), None) is not None
            yield variable, kind, url.get_secret_value(), command if is_set else ""


def _unverified(settings: Variables) -> Iterator[SettingIssue]:
    for variable, kind, url, command in _logins(settings):
        if text := unverified_login(variable, kind, url, commanded=bool(command)):
            yield SettingIssue((variable,), text)


def _unused_commands(settings: Variables) -> Iterator[SettingIssue]:
    for variable, _, url, command in _logins(settings):
        if command and has_password(url):
            yield SettingIssue(
                (command, variable),
                f"{command} is set but not used: {variable} has a password, which wins. Remove the password from "
                f"{variable}, or unset {command}",
            )


def _ignored(settings: Variables) -> Iterator[SettingIssue]:
    unsent, alone = settings.publisher_type in kinds.UNSENT, settings.destinations_file is None
    unused = {
        "PUBLISHER_URL is set but": unsent and settings.publisher_url is not None,
        # Each destination of a file is looked at with its own type.
        f"MESSAGE_FORMAT={settings.message_format} is": unsent and alone and settings.message_format != "openoutbox",
        "HTTP_ENDPOINTS_FILE is set but": settings.publisher_type != "http"
        and alone
        and settings.http_endpoints_file is not None,
    }
    for what, is_unused in unused.items():
        if is_unused:
            name = what.partition(" ")[0].partition("=")[0]
            yield SettingIssue(
                (name, "PUBLISHER_TYPE"), f"{what} not used: PUBLISHER_TYPE is {settings.publisher_type}"
            )
    if alone and settings.cloudevents_source is not None and settings.message_format not in CLOUDEVENTS:
        yield SettingIssue(
            ("CLOUDEVENTS_SOURCE", "MESSAGE_FORMAT"),
            f"CLOUDEVENTS_SOURCE is set but not used: MESSAGE_FORMAT is {settings.message_format}",
        )
    if settings.ordering_on_dead == "block" and settings.ordering == "none":
        yield SettingIssue(
            ("ORDERING_ON_DEAD", "ORDERING"), "ORDERING_ON_DEAD=block has no effect: it belongs to ORDERING=key"
        )


class LeaseMargin(NamedTuple):
    """LEASE_TIMEOUT beside the variable that bounds one publish to the chosen broker. Times are seconds."""

    lease_timeout: float
    variable: str
    publish_timeout: float

    @property
    def too_short(self) -> bool:
        """Whether a lease may expire before the broker's first answer, so that an event is sent twice."""
        return self.lease_timeout <= self.publish_timeout

    @property
    def tight(self) -> bool:
        """Whether one retry inside the lease may exceed it."""
        return self.lease_timeout <= 2 * self.publish_timeout

    @property
    def recommended(self) -> float:
        """A lease that leaves room for several attempts."""
        return 4 * self.publish_timeout


def lease_margin(settings: Variables) -> LeaseMargin | None:
    """Compare the lease with one publish; None without a broker. The start and ``relay-cli check`` both use it."""
    kind = kinds.find(settings.publisher_type)
    if kind is None or kind.timeout not in NAMES:
        return None
    return LeaseMargin(settings.lease_timeout, kind.timeout, getattr(settings, kind.timeout.lower()))


def _short_lease(settings: Variables) -> Iterator[SettingIssue]:
    margin = lease_margin(settings)
    lease = f"LEASE_TIMEOUT={format_duration(settings.lease_timeout)}"
    if margin is not None and margin.too_short:
        yield SettingIssue(
            ("LEASE_TIMEOUT", margin.variable),
            f"{lease} is not longer than {margin.variable}={format_duration(margin.publish_timeout)}: "
            "an event may be sent twice before its first answer is known",
        )
    elif settings.lease_timeout < _BRIEF_LEASE:
        yield SettingIssue(
            ("LEASE_TIMEOUT",),
            f"{lease} is below {format_duration(_BRIEF_LEASE)}: after a pause of that length, of the relay or of the "
            "database, events are sent twice; set LEASE_TIMEOUT to 30s or more",
        )


def about(
    rule: Callable[[Variables], Iterator[SettingIssue]], settings: Variables, silent: Collection[str]
) -> list[str]:
    """What a rule finds, without the findings that touch a variable in ``silent``."""
    return [finding.text for finding in rule(settings) if not set(finding.variables) & set(silent)]
