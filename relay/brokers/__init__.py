"""One folder or module per broker, each imported only when PUBLISHER_TYPE names it.

``kinds`` has a row for each, with all that other rooms know of it. In a folder, ``publisher`` implements
``relay.core.ports.Publisher`` over a ``session``, one connection; ``options`` is its configuration, ``errors`` what the
broker's errors mean, ``headers`` how a message looks, ``check`` what ``relay-cli check`` asks.
"""
