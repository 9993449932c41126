"""Policies that need no training: scripted agents and the null policies."""
