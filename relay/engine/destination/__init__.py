"""A publisher over one destination or several: which event goes where, and each with its own gate."""
