"""Offline algorithms, one file each; `trainers.offline.registry` names them."""
