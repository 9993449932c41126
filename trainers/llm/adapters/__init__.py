"""Bridges to other libraries' trainers; none is imported before it is asked for."""
