"""A Django app: the outbox and the inbox as models, a read-only admin, and migrations with the packaged SQL.

``INSTALLED_APPS = [..., "openoutbox.django"]``; where ``relay-cli migrate`` has made the outbox before,
``python -m django migrate openoutbox 0001 --fake``, and ``0002`` is the inbox. The models are managed, so that
``TransactionTestCase`` empties both tables between tests. New events go in by ``openoutbox.enqueue``; all else is the
relay's to change.
"""
