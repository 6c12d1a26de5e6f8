"""The publishers, one folder a broker, and the suite that all of them pass."""
