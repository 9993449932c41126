"""Shares of a job, done by one worker or by many: `convgym.crew.crew`."""
