"""One suite per port, run by every adapter of it."""
