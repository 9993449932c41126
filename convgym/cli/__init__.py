"""The command `convgym`."""
