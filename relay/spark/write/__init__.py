"""Write DataFrames and streams into the outbox, each row once whatever fails.

``writers`` are what Spark calls. On the driver: ``write_options``, ``columns``, ``table``, ``runs`` (open, commit,
abort) and ``epochs`` (the ledger). On executors: ``tasks``, each in one transaction, which turn rows into COPY
(``frames``, ``encode``, ``identity``) and ``load`` them into the outbox or into ``staging``. ``repeats`` tells a
repeated event from another.
"""
