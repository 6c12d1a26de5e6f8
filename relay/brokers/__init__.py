"""One folder or module per broker, imported when PUBLISHER_TYPE names it; ``relay.app.publishers`` builds publishers.

``kinds`` has a row for each, with all that other rooms know of it. In a folder, ``publisher`` implements
``relay.core.ports.Publisher`` over a ``session``, one connection; ``options`` is its configuration, ``errors`` what the
broker's errors mean, ``headers`` how a message looks, ``check`` what ``relay-cli check`` asks. ``null`` and ``stdout``
need no broker.

What folders share: ``current_session`` replaces a session that has ended; ``pipelined`` is a session whose messages
wait for an answer each, in ``entries``; ``sending`` tells a slow link from a silent server, ``share`` leaves half of
the event loop to others; ``tls``, ``files`` and ``server_address`` are for connecting; ``findings`` and ``greeting``
for ``check``. A URL with its login stands in ``login.BrokerOptions``, which also asks the command for its password, and
is never shown; what a broker says is cut and masked where it becomes an outcome or a line (``relay.core.outside``,
``relay.core.secrets``).
"""
