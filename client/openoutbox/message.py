"""A message as a consumer gets it, turned back into the event: one constructor for each broker.

    message = Message.from_kafka(consumer.poll(1.0))
    with connection.transaction(), inbox.once(connection, message.event_id, consumer="billing") as first:
        ...

What the relay did to a header so that the broker could carry it (docs/reference/messages.md#headers) is undone:
prefixes, percent-encoding, base64. That is exact but for what was like that before: a header that an application called
``X-Nats-a`` comes back as ``Nats-a``.

For consumers. Pure: takes the objects of the brokers' libraries by their attributes and imports none. Raises
MessageError for a message that no relay sent in its default format; the error names what is missing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from openoutbox.errors import MessageError
from openoutbox.identity import LONGEST_ID, canonical_id

_USER: Final = re.compile(r"x-user-", re.IGNORECASE)
_EMPTY_NAME: Final = "x-empty-name"
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NATS_VALUE: Final = re.compile(r"(?!\s)[^\r\n\x00]*(?<!\s)")
_HTTP_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")
_TRACE: Final = ("traceparent", "tracestate", "baggage")
_OF_RABBITMQ: Final = ("x-death", "x-delivery-count", "x-first-death-", "x-last-death-", "x-acquired-count")

Headers = Iterable[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery of an event."""

    event_id: str
    """A UUID in small letters with hyphens: what the inbox takes."""
    event_type: str | None
    """The topic, subject, stream or routing key: the type, unless a route gave it another name. None with SQS."""
    partition_key: str | None
    payload: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    """The application's own, as it named them. HTTP tells no small letters from capitals, and servers change them."""
    deliveries: int | None = None
    """How many times the broker has delivered it, this one included; None where the message does not say."""

    @property
    def trace(self) -> dict[str, str]:
        """The trace context for a propagator: ``traceparent``, ``tracestate``, ``baggage``, where they are there."""
        return {name: self.headers[name] for name in _TRACE if name in self.headers}

    @classmethod
    def from_kafka(cls, message: Any) -> Message:  # noqa: ANN401 - of any library
        """Of confluent-kafka's ``Message``, or a record of aiokafka or kafka-python."""
        own, headers = _split(_get(message, "headers") or (), {"x-event-id"}, _without_user("x-event-id"))
        key = _get(message, "key")
        return cls(
            event_id=_id(own, "x-event-id", "header X-Event-ID"),
            event_type=_get(message, "topic"),
            partition_key=None if key is None else _text("key", key),
            payload=_get(message, "value") or b"",
            headers=headers,
        )

    @classmethod
    def from_nats(cls, message: Any) -> Message:  # noqa: ANN401 - of any library
        """Of nats-py's ``Msg``, from a JetStream consumer."""
        sent = ((name, _decoded(_text(name, value), _NATS_VALUE)) for name, value in (message.headers or {}).items())
        own, headers = _split(sent, {"nats-msg-id", "x-partition-key"}, _name_of_nats)
        reply = str(getattr(message, "reply", "") or "").split(".")
        return cls(
            event_id=_id(own, "nats-msg-id", "header Nats-Msg-Id"),
            event_type=message.subject,
            partition_key=own.get("x-partition-key"),
            payload=message.data,
            headers=headers,
            deliveries=_delivered(reply),
        )

    @classmethod
    def from_redis(cls, stream: str | bytes, fields: Mapping[Any, Any], *, deliveries: int | None = None) -> Message:
        """Of an entry's fields, as redis-py returns them; XPENDING knows ``deliveries``."""
        named = {_text("field", name): value for name, value in fields.items()}
        key = named.get("partition_key")
        payload = named.get("payload", b"")
        return cls(
            event_id=_id({"id": _text("id", named.get("id") or "")}, "id", "field id"),
            event_type=_text("stream", stream),
            partition_key=None if key is None else _text("partition_key", key),
            payload=payload.encode() if isinstance(payload, str) else payload,
            headers={name[2:]: _text(name, value) for name, value in named.items() if name.startswith("h:")},
            deliveries=deliveries,
        )

    @classmethod
    def from_rabbitmq(cls, method: Any, properties: Any, body: bytes) -> Message:  # noqa: ANN401 - of any library
        """Of what pika hands to a callback. An ``IncomingMessage`` of aio-pika is method and properties in one."""
        given = properties.headers or {}
        ours = ((name, value) for name, value in given.items() if not name.lower().startswith(_OF_RABBITMQ))
        own, headers = _split(ours, {"x-partition-key"}, _name_of_rabbitmq)
        count = given.get("x-delivery-count")  # of quorum queues, which count returns
        return cls(
            event_id=_id({"": properties.message_id or ""}, "", "property message_id"),
            event_type=method.routing_key,
            partition_key=own.get("x-partition-key"),
            payload=body,
            headers=headers,
            deliveries=count + 1 if isinstance(count, int) else None if method.redelivered else 1,
        )

    @classmethod
    def from_webhook(cls, headers: Mapping[str, str] | Headers, body: bytes) -> Message:
        """Of a request, after its signature was verified: its headers, in any case, and its body as it came."""
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        sent = [(name, _decoded(_text(name, value), _HTTP_VALUE)) for name, value in pairs]
        users = [one for one in sent if _USER.match(one[0]) or one[0].lower() in _TRACE]
        own = {name.lower(): value for name, value in sent if not _USER.match(name)}
        return cls(
            event_id=_id(own, "webhook-id", "header webhook-id"),
            event_type=own.get("x-event-type"),
            partition_key=own.get("x-partition-key"),
            payload=body,
            headers={_plain_name(_USER.sub("", name, count=1)): value for name, value in users},
        )

    @classmethod
    def from_sqs(cls, message: Mapping[str, Any]) -> Message:
        """Of boto3's ``receive_message`` with ``MessageAttributeNames=["All"]``.

        ``deliveries`` is known with ``AttributeNames=["ApproximateReceiveCount"]``. Of a topic: with raw delivery.
        """
        given = {name: value.get("StringValue", "") for name, value in (message.get("MessageAttributes") or {}).items()}
        more = _more_of_sqs(given.pop("X-More-Headers", "{}"))
        names = {"x-event-id", "x-partition-key", "x-payload-encoding"}
        own, headers = _split({**given, **more}.items(), names, _without_user(*names, "x-more-headers"))
        count = (message.get("Attributes") or {}).get("ApproximateReceiveCount")
        return cls(
            event_id=_id(own, "x-event-id", "message attribute X-Event-ID"),
            event_type=None,
            partition_key=own.get("x-partition-key"),
            payload=_body_of_sqs(message.get("Body", ""), own.get("x-payload-encoding")),
            headers=headers,
            deliveries=None if count is None else int(count),
        )


def _get(message: object, name: str) -> Any:  # noqa: ANN401 - of any library
    """A method's answer (confluent-kafka) or an attribute (the other libraries)."""
    value = getattr(message, name)
    return value() if callable(value) else value


def _split(sent: Headers, own: set[str], undo: Callable[[str], str]) -> tuple[dict[str, str], dict[str, str]]:
    """The relay's own headers by their names in small letters, and the user's by the names that ``undo`` gives back."""
    ours: dict[str, str] = {}
    users: dict[str, str] = {}
    for name, value in sent:
        if name.lower() in own:
            ours[name.lower()] = _text(name, value)
        else:
            users[undo(name)] = _text(name, value)
    return ours, users


def _without_user(*reserved: str) -> Callable[[str], str]:
    """Undo the prefix of a name that would have been one of the relay's."""

    def undo(name: str) -> str:
        plain = _USER.sub("", name, count=1)
        return plain if plain.lower() in reserved else name

    return undo


def _name_of_nats(name: str) -> str:
    if re.match(r"x-(?:x-)*nats-", name, re.IGNORECASE):
        name = name[2:]
    return _plain_name(_without_user("x-partition-key")(name))


def _name_of_rabbitmq(name: str) -> str:
    return name[2:] if name in ("X-CC", "X-BCC") else _without_user("x-partition-key")(name)


def _plain_name(name: str) -> str:
    return "" if name.lower() == _EMPTY_NAME else _decoded(name, _NAME)


def _decoded(text: str, carried: re.Pattern[str]) -> str:
    """The text before it was percent-encoded, which only happened to what is not ``carried`` as it is."""
    if "%" not in text:
        return text
    try:
        plain = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
    return text if carried.fullmatch(plain) else plain


def _delivered(reply: list[str]) -> int | None:
    """From the subject to acknowledge at: ``$JS.ACK.[domain.account.]stream.consumer.delivered.…``."""
    if reply[:2] != ["$JS", "ACK"] or len(reply) < 9:
        return None
    count = reply[4 if len(reply) == 9 else 6]
    return int(count) if count.isdecimal() else None


def _more_of_sqs(text: str) -> dict[str, object]:
    try:
        more = json.loads(text)
    except (ValueError, RecursionError):
        more = None
    if not isinstance(more, dict):
        raise MessageError("message attribute X-More-Headers: not a JSON object")
    return more


def _body_of_sqs(body: str, encoding: str | None) -> bytes:
    match encoding:
        case None:
            return body.encode()
        case "empty":
            return b""
        case "base64":
            try:
                return base64.b64decode(body, validate=True)
            except ValueError:
                raise MessageError("the body is not base64, though X-Payload-Encoding says so") from None
        case _:
            raise MessageError(f"message attribute X-Payload-Encoding: {encoding!r} is neither base64 nor empty")


def _id(own: Mapping[str, str], name: str, place: str) -> str:
    text = own.get(name, "").partition(":")[0]  # a destination's name stands behind the colon
    if not text:
        raise MessageError(f"the message has no {place}: no relay sent it, or not in its default format")
    if len(text) > LONGEST_ID or "\x00" in text:
        raise MessageError(f"{place}: {text[:LONGEST_ID]!r} is no id of an event")
    return canonical_id(text)


def _text(name: str, value: object) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise MessageError(f"{name}: not UTF-8") from None
    return "" if value is None else str(value)
