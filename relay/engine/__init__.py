"""The loops of the relay, written against the ports of ``relay.core`` and nothing else.

Read ``relay`` first: it starts and stops the loops. The way of an event is ``claim``, ``publish``, ``decide``,
``settle``; ``batch`` holds the events of one claim, ``inflight`` those of all, ``room`` says how much the next claim
may take. ``lease`` renews and reaps, ``expired_leases`` asks for proofs before that, ``fences`` says under which lease
each event is, ``order`` is the order per key.

An event is given back, without an attempt, by a method of ``batch`` alone. ``decide`` calls it for what an outcome or a
probe says, ``publish`` for what the client was made to forget, ``claim`` for what the closed gate keeps from being
offered, ``relay`` at the stop; ``order`` says what waits behind an event and goes back with it.

When a broker fails: ``gate`` (the whole broker), ``away`` (one destination), ``suspects`` and ``isolate`` (a connection
that was cut); ``destination`` has one destination or several behind one publisher. When the database fails: ``refusal``
(one row), ``health`` (all of it: what is claimed goes on to the broker while its lease lasts, and outcomes wait), which
also has the relay's state. Beside the way: ``attempts`` (for the delivery log), ``backlog`` (how many events wait),
``counts`` and ``series`` (what was done in each minute), ``fleet`` (the relays of the table), ``look_behind`` (rows
that claims have gone past), ``losses`` (live leases that another relay took), ``pauses`` (what an operator holds back).

What /healthz, /readyz and /stats show of all that: ``status``; what the loops share: ``context``, ``engine_options``,
``flows`` (which events a claim can tell apart), ``waiting`` (rests between claims, pauses between tries). Metrics are
counted where they arise, by ``relay.core.telemetry.Telemetry``.
"""
