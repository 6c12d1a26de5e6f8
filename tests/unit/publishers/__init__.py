"""What publishers do before and after a broker is asked."""
