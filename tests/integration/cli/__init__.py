"""The command line against real servers."""
