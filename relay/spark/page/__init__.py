"""The page that a job makes for people: one HTML file with its plots inside, which needs no network."""
