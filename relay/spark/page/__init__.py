"""The page of a job for people: one HTML file with its plots inside, which needs no network."""
