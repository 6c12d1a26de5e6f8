"""A publisher over one destination or several: which event goes where, and each with its own gate.

``watched`` is the state of one, ``destination`` its probe; ``several`` is the publisher over many, each a ``member``.
"""
