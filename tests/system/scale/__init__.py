"""Large amounts: part of `make scale`, not of `make test`."""
