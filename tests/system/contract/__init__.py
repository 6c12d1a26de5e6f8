"""The contract, held against the relay from outside: the daemon, its environment, the table, the brokers."""
