"""The loops of the relay, written against the ports of ``relay.core.ports`` and nothing else."""
