"""The documents, held to what they speak of."""
