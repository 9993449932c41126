"""Searches for a learner's options, by optuna; `quick_hpo` is the whole of it in one call."""

from trainers.tuning.search import quick_hpo

__all__ = ["quick_hpo"]
