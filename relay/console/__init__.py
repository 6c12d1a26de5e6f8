"""The web console and the admin API: a process of its own, started by ``relay-cli console``; the extra ``console``.

``serve`` runs it, ``app`` builds it, ``api`` and ``pages`` are its two faces, ``access`` says who may do what and
bounds what they send. Neither face holds SQL: both call ``relay.outbox.admin``, over ``readings`` (shared by all
viewers, at most one a second) and ``recording`` (a change with its record, once for a key); ``jobs`` run changes of
many events, whose batches and rate are those of ``relay.outbox.admin.bulk``. ``stores`` read delivery log and event
store, each by a ``storethread``. ``context`` is what a request finds of all this, ``problems`` what a client
sees of an error, ``conditional`` its ETags, ``static`` the files of the pages; ``database_places`` bounds what a hung
database holds up.
"""
