"""The environment, read once, as frozen settings: the only package that reads it.

``variables`` declares each variable with default and meaning (``destinations``, ``routing``, ``admitting``: groups of
them), ``value_kinds`` how a value is read, ``combinations`` what must hold between several. A program reads
``settings.Settings``; ``listening`` reads SERVER_PORT alone. Importing this package imports neither of them.
"""
