"""Rollouts, seeded, repeated and off-policy evaluation, pass^k, intervals, slices, regrading."""
