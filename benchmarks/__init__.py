"""Measurements: run side by side in one go, compared as ratios, never asserted."""
