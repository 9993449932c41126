"""From simulated to real users: mixing, watching the gap, adapting features, ranking policies."""
