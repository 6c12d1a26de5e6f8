"""The ``relay-cli`` command: one module per subcommand, no SQL and no logic of its own."""
