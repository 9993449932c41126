"""Rollouts, seeded and repeated evaluation, pass^k, intervals, slices, regrading."""
