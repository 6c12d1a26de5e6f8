"""The loops of the relay, written against the ports of ``relay.core.ports`` and nothing else.

Read ``relay`` first: it starts and stops the loops. The way of an event is ``claim``, ``publish``, ``decide``,
``settle``; ``batch`` holds the events of one claim, ``inflight`` those of all, ``room`` says how much the next claim
may take. ``lease`` renews and reaps, ``expired_leases`` asks for proofs before that, ``order`` is the order per key.

When a broker fails: ``gate`` (the whole broker), ``away`` (one destination), ``suspects`` and ``isolate`` (a connection
that was cut); ``destination`` has one destination or several behind one publisher. When the database fails: ``refusal``
(one row), ``health`` (all of it). What is shown of all that: ``status``; ``context`` is what the loops share.
"""
