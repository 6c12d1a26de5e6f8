"""Whole fleets of relays on a scripted database and a scripted broker, in virtual time: one seed is one history."""
