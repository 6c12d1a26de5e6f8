"""The web console and the admin API: a process of its own, started by ``relay-cli console``; the extra ``console``.

``app`` builds it, ``api`` and ``pages`` are its two faces, ``access`` says who may do what. Neither holds SQL: both
call ``relay.outbox.admin``.
"""
