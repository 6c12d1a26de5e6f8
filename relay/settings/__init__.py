"""The environment, read once, as frozen settings: the only package that reads it.

``relay.settings.settings.Settings`` is what a program reads; ``relay.settings.listening`` reads SERVER_PORT alone, with
the standard library only. Importing this package imports neither of them.
"""
