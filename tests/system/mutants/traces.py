"""Mutants of the traces (``relay/telemetry/tracer.py`` and the engine's calls)."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_TRACES = "tests/engine/test_traces.py"
_TRACER = "relay/telemetry/tracer.py"

TRACES: Final = (
    Mutant(
        "a message carries the application's context instead of its span's",
        _TRACER,
        "return OutboxEvent._make((*event[:_HEADERS], with_context(event.headers, context), *event[_HEADERS + 1 :]))",
        "return event",
        (f"{_TRACES}::test_a_delivery_is_a_span_below_the_applications_and_the_message_carries_it", _TRACES),
    ),
    Mutant(
        "an event that is not sampled has a span",
        "relay/core/tracecontext.py",
        "if flags & 1 else None",
        "if flags >= 0 else None",
        ("tests/core/test_tracecontext.py::test_what_is_unsampled_or_malformed_has_no_context",),
    ),
    Mutant(
        "the span of a lost event never ends",
        "relay/engine/inflight.py",
        "            batch.trace.lose(lost)\n",
        "            pass\n",
        (f"{_TRACES}::test_a_lost_lease_ends_the_span_and_the_late_answer_changes_nothing", _TRACES),
    ),
    Mutant(
        "spans without an answer never end",
        "relay/engine/inflight.py",
        'batch.trace.end("unanswered")',
        "pass",
        (f"{_TRACES}::test_a_client_that_does_not_let_go_leaves_no_span_open", _TRACES),
    ),
    Mutant(
        "a suspect's first span never ends",
        "relay/engine/decide.py",
        "            batch.trace.cut_off(events)\n",
        "            pass\n",
        (f"{_TRACES}::test_a_suspect_has_a_span_for_each_offer", _TRACES),
    ),
)
