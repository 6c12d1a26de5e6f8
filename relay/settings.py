"""The environment, read once, as frozen settings: the only module that reads it."""
