"""The packaged SQL makes the tables; what Django knows of them is its state alone."""
