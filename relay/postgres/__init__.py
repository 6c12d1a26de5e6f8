"""What every room that talks to PostgreSQL shares: its URL, connections, errors, statements and codecs.

``url`` and ``connect`` make each connection, ``sql`` loads each statement, ``errors`` says what an SQLSTATE means.
``migrations`` brings a room's tables to this release; ``grants`` and ``roles`` are about rights.
"""
