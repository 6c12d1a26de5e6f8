"""Mutants of the broker clients (``relay/brokers``)."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_CONFORMANCE = "tests/brokers/test_conformance.py"
_MISSING = f"{_CONFORMANCE}::test_a_missing_destination_is_transient_and_holds_up_no_other_event"
_ABSENT = f"{_CONFORMANCE}::test_a_broker_that_comes_back_is_used_again"
_KAFKA_ENDING = "tests/brokers/kafka/test_ending.py"
_ABANDONING = "tests/brokers/test_abandoning.py"
_NATS = "tests/brokers/nats/test_publisher.py"
_REDIS = "tests/brokers/redis/test_publisher.py"

BROKERS: Final = (
    Mutant(
        "what a session did not send before it was cut is forgotten",
        "relay/brokers/current_session.py",
        "            rest = left",
        "            rest = ()",
        (f"{_REDIS}::test_what_a_cut_connection_carried_is_cut_off_and_the_rest_goes_over_the_next",),
    ),
    Mutant(
        "Kafka: the purge is left out",
        "relay/brokers/kafka/session.py",
        "        held[0].purge()\n",
        "",
        (
            f"{_KAFKA_ENDING}::test_the_client_holds_nothing_after_abandon",
            _KAFKA_ENDING,
        ),
    ),
    Mutant(
        "Kafka: an ended session reports to its publisher",
        "relay/brokers/kafka/session.py",
        "if self.ended_as is None or isinstance(self.ended_as, Withheld):",
        "if True:",
        (
            f"{_KAFKA_ENDING}::test_a_refused_batch_that_is_reported_during_abandon_opens_no_session",
            _KAFKA_ENDING,
        ),
    ),
    Mutant(
        "Kafka: abandoning does not wait for replaced sessions",
        "relay/brokers/kafka/publisher.py",
        "        if self._tasks:",
        "        if False:",
        (
            f"{_KAFKA_ENDING}::test_abandon_waits_for_a_session_that_was_replaced_before",
            _KAFKA_ENDING,
        ),
    ),
    Mutant(
        "Kafka: a failed delivery counts as acknowledged",
        "relay/brokers/kafka/offer.py",
        "        if error is not None:\n            self.unanswered -= 1",
        "        if False:\n            self.unanswered -= 1",
        (
            f"{_KAFKA_ENDING}::test_abandon_waits_for_a_session_that_was_replaced_before",
            _KAFKA_ENDING,
            f"{_MISSING}[kafka]",
        ),
    ),
    Mutant(
        "Kafka: one replica's acknowledgement is enough",
        "relay/brokers/kafka/options.py",
        '"acks": "all" if everyone else "1"',
        '"acks": "1"',
        (
            "tests/brokers/kafka/test_options.py::test_defaults_keep_the_promises",
            "tests/brokers/kafka/test_options.py",
        ),
    ),
    Mutant(
        "Kafka: the event id is left out",
        "relay/brokers/kafka/headers.py",
        "= [(EVENT_ID_HEADER, event.event_id)]",
        "= []",
        (
            "tests/brokers/kafka/test_headers.py::test_the_event_id_comes_first_and_the_users_headers_in_their_order",
            "tests/brokers/kafka/test_headers.py",
        ),
    ),
    Mutant(
        "Kafka: the probe always answers",
        "relay/brokers/kafka/probe.py",
        "        await asyncio.wait_for(asyncio.to_thread(client.list_topics, _TOPIC, timeout), timeout + 0.1)",
        "        assert client",
        (f"{_KAFKA_ENDING}::test_a_broker_that_is_away_does_not_answer_a_probe", _KAFKA_ENDING, f"{_ABSENT}[kafka]"),
    ),
    Mutant(
        "NATS: the message id is left out",
        "relay/brokers/nats/headers.py",
        "headers = {ID_HEADER: event.copy_id}",
        "headers = dict[str, str]()",
        (f"{_NATS}::test_a_repeat_is_acknowledged_and_stored_once",),
    ),
    Mutant(
        "NATS: acknowledged before the reply",
        "relay/brokers/nats/session.py",
        "            self._note(entry, deadline, written + size)",
        "            self._answer(self._note(entry, deadline, written + size), ACKNOWLEDGED)",
        (f"{_NATS}::test_a_subject_with_a_subscriber_and_no_stream_runs_into_its_own_timeout",),
    ),
    Mutant(
        "NATS: an answer with an error is taken for an acknowledgement",
        "relay/brokers/nats/acknowledgements.py",
        'rb\'(?P<duplicate>,"duplicate": ?true)?',
        'rb\'(?P<duplicate>,"duplicate": ?true)?.*',
        ("tests/brokers/nats/test_acknowledgements.py",),
    ),
    Mutant(
        "NATS: the size of an acknowledgement is not compared",
        "relay/brokers/nats/acknowledgements.py",
        '            if match.start() != end or size != int(match["size"]):',
        "            if match.start() != end:",
        ("tests/brokers/nats/test_acknowledgements.py",),
    ),
    Mutant(
        "NATS: a message that no stream takes counts as stored",
        "relay/brokers/nats/session.py",
        "        resolve((entry, NO_STREAM) for entry in failed)",
        "        resolve((entry, ACKNOWLEDGED) for entry in failed)",
        (f"{_MISSING}[nats]",),
    ),
    Mutant(
        "NATS: missing acknowledgements are waited for without end",
        "relay/brokers/pipelined.py",
        "            overdue.append((number, entry[0]))",
        "            pass",
        (f"{_NATS}::test_a_subject_with_a_subscriber_and_no_stream_runs_into_its_own_timeout",),
    ),
    Mutant(
        "NATS: abandoning forgets nothing",
        "relay/brokers/pipelined.py",
        "        self._wire.cut()\n        if",
        "        if",
        (
            f"{_ABANDONING}::test_nats_gets_nothing_more_after_it_was_abandoned",
            _ABANDONING,
        ),
    ),
    Mutant(
        "NATS: the probe always answers",
        "relay/brokers/nats/session.py",
        "                await self._client.flush(timeout)  # type: ignore[arg-type]  # any number of seconds will do",
        "                pass",
        (f"{_NATS}::test_a_server_that_hangs_answers_no_probe",),
    ),
    Mutant(
        "Redis: a reply is given to the newest event",
        "relay/brokers/redis/session.py",
        "        offer = self._pending.popleft()",
        "        offer = self._pending.pop()",
        (f"{_REDIS}::test_each_command_has_its_own_outcome",),
    ),
    Mutant(
        "Redis: acknowledged before the reply",
        "relay/brokers/redis/session.py",
        "            self._pending.append(offer)",
        "            self._pending.append(None); sink([(event, ACKNOWLEDGED)])",
        (f"{_REDIS}::test_each_command_has_its_own_outcome",),
    ),
    Mutant(
        "Redis: silence is waited for without end",
        "relay/brokers/redis/session.py",
        "        if self._silent_looks > self._most_looks:",
        "        if False:",
        (f"{_REDIS}::test_only_a_silence_while_replies_are_due_is_a_timeout",),
    ),
    Mutant(
        "Redis: abandoning forgets nothing",
        "relay/brokers/redis/session.py",
        "            self._writer.transport.abort()",
        "            pass",
        (
            f"{_ABANDONING}::test_redis_gets_nothing_more_after_it_was_abandoned",
            _ABANDONING,
        ),
    ),
    Mutant(
        "Redis: the probe does not ask whether writes are taken",
        "relay/brokers/redis/publisher.py",
        "                await ping(connection, self._nodes.last_streams.get(address))",
        "                pass",
        ("tests/brokers/redis/test_moving.py::test_a_demoted_primary_is_unreachable_until_it_takes_writes_again",),
    ),
    Mutant(
        "stdout: a line that was begun counts as written",
        "relay/brokers/stdout.py",
        "whole = sum(1 for end in ends if end <= written)",
        "whole = sum(1 for end in ends if written)",
        (
            "tests/brokers/test_stdout.py::test_a_line_that_was_begun_is_finished_before_the_next",
            "tests/brokers/test_stdout.py",
        ),
    ),
)
