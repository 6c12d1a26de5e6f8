"""The composition root: the only room that knows every room.

``run`` is the daemon's life and its exit codes, ``loop`` its event loop, ``collector`` its garbage collection.
``build``, ``publishers`` and ``destinations`` turn settings into the options of the other rooms; ``relay_identity`` is
what a relay says of itself to the others. ``delivery_log`` and ``subscriptions`` run beside the relay where they are
set. Commands have ``doctor`` (check), ``rolecheck`` (check --for), ``database_roles`` (roles), ``broken`` (causes) and
``duplicates`` (replay into NATS).
"""
