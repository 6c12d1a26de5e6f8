"""The composition root: the only room that knows every room.

``run`` is the daemon's life. ``build``, ``publishers`` and ``destinations`` turn settings into the options of the
other rooms. ``doctor``, ``consumers``, ``rolecheck`` and ``database_roles`` do what commands need of several rooms.
"""
