"""The operator's side of a consumer's inbox, for ``relay-cli inbox`` and the console. Consumers use openoutbox.

``table`` creates it, under any name (the DDL is the client's, ``openoutbox/sql/inbox``), and opens it for the others.
``prune`` deletes old marks, ``stats`` counts, ``letters`` are the dead letters, ``grants`` the rights of each role.
"""
