"""Domains: each one a world, a rule set, workflows, an action table and its phrases."""
