"""What an operator does to the outbox. Called by ``relay-cli`` and the console, never by the relay.

- Looking: ``browse``, ``search`` (page by page, by ``examination``), ``overview``, ``event_types``, ``series``,
  ``relays``, ``held`` (by pauses); ``readings`` is what they share.
- Why events wait or fail: ``why`` says it of one, ``causes`` of all that fail, ``trouble`` of the outbox, each judging
  what ``explain`` and ``overview`` have read.
- Changing: ``actions`` (one event), ``bulk`` and ``replay`` (many, by ``selection``), ``changes`` (the record of it),
  ``pause``, ``prune``.
- Checking, for ``relay-cli check``: ``outbox_check``, ``table_kind``, ``modes``, ``waking``, ``rolecheck``, ``grants``.

Each function opens a connection of its own (``connection``), changes rows only in bounded batches that each are their
own short transaction, and raises the errors of ``relay.core.errors``.
"""
