"""Agents that learn from recorded conversations: adapters to d3rlpy and what it lacks."""
