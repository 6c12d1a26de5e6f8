"""What the publisher suite needs to know and do on the broker's side, one module per broker."""
