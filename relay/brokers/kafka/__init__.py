"""The publisher to Apache Kafka.

``publisher`` sends without transactions: over several ``session``s, each of which remembers in an ``offer`` what has no
answer yet; ``stamps`` says which time a message has, ``certificates`` when new files ask for new clients, ``probe``
whether a broker answers. ``options`` refuses the properties that guarantees depend on; login and TLS are librdkafka's
properties, ``msk`` a token for Amazon's. ``librarylog`` is librdkafka's own log.

``transactions`` sends with proofs: ``together`` gathers calls, ``carrying`` takes one call and ``transaction`` one
transaction to its end, ``proofs`` are the records that it leaves, ``asking`` reads them and ends the transactions of a
relay that is dead, ``living_twin`` notices one that lives under the same RELAY_ID, ``setup`` makes what Kafka needs.
"""
