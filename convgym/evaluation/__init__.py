"""Rollouts, seeded evaluation and intervals."""
