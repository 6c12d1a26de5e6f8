"""Write DataFrames and streams into the outbox, each row once whatever fails.

``writers`` are what Spark calls. On the driver: ``write_options``, ``columns`` (checks the schema), ``table`` (checks
the outbox), ``runs`` (open, commit, abort), ``epochs`` (whether a version is written already), ``staging`` (inserts the
staged rows, and cleans up after runs that ``liveness`` finds dead), ``observed`` (the counts on Spark's pages). On
executors: ``tasks``, each in one transaction, which turn rows into COPY (``frames``, ``jsontext``, ``identity``,
``encode``) and ``load`` them into the outbox or the staging table. ``repeats`` tells a repeated event from another.
"""
