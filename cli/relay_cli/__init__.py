"""The ``relay-cli`` command: one module per subcommand, no SQL and no logic of its own.

``main`` is the entry, ``app`` lists the commands, ``groups`` finds one by its name, ``run`` prints errors, ``codes``
are the exit codes. ``shared_options`` has options of several commands, ``log_options``, ``store_options`` and
``inbox_options`` those of a group; ``values`` turns their text into values. ``output``, ``screen`` and ``columns``
print. ``early_end`` reports what a change in batches has done when it ends early, ``who`` names the operator in
records, ``docs`` writes docs/reference/cli.md.
"""
