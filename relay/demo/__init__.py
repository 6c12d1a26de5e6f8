"""The demonstration: ``python -m relay.demo`` shows the relay at work on a machine that has nothing but Python.

``scene`` is its order of events, on servers of ``relay.localservers``. ``workload`` is the application, ``consumer``
what notes arrivals; ``ledger`` adds up both and decides whether they agree, ``display`` shows it. It stands beside the
composition root and may use anything.
"""
