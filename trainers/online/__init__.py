"""Agents that learn while they talk: adapters to Stable-Baselines3."""
