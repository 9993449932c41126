"""Drivers: the Gymnasium environments over the engine."""
