"""The ``relay-cli`` command: one module per subcommand, no SQL and no logic of its own.

``app`` lists the commands, ``groups`` finds one by its name, ``run`` prints errors. ``shared_options`` has options of
several commands, ``values`` turns their text into values, ``output`` and ``columns`` print.
"""
