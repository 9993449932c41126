"""The simulated user: persona, decision points, agenda."""
