"""The web console and the admin API: a process of its own, started by ``relay-cli console``; the extra ``console``.

``serve`` runs it, ``app`` builds it, ``api`` and ``pages`` are its two faces, ``access`` says who may do what. Neither
holds SQL: both call ``relay.outbox.admin``, over ``readings`` (shared by all viewers, at most one a second) and
``recording`` (a change with its record); ``jobs`` are changes of many events. ``stores`` read delivery log and event
store. ``problems`` is what a client sees of an error, ``database_places`` bounds what a hung database holds up.
"""
