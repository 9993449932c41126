"""The service: replies, environment sessions, and a page to play and to look at conversations."""
