"""The pure heart of the relay: events, outcomes, decisions and ports. Imports the standard library only."""
