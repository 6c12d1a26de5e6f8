"""Write DataFrames and streams into the outbox."""
