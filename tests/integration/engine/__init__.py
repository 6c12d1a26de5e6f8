"""The engine on a real table, with a broker in memory that does what a test wants."""
