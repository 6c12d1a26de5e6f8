"""A publisher over one destination or several: which event goes where, and each with its own gate.

``watched`` is the state of one, ``destination`` its probe, with the deadlines of ``probetime``; ``parts`` are what can
fail on its own within one. ``several`` is the publisher over many, each a ``member``, ``proving`` the same where some
have proofs, with ``copies`` (their leases). ``routed`` gives one broker's destinations other names. Both ``assign``
events; one for several destinations is a ``fanout``, one for none goes to ``drops``. ``pace`` is the rate of one,
``late`` says which events wait for it, and ``relay.engine.room`` which places in flight are left for the others.
"""
