"""Any policy that was saved here, read by what its file says it is."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

from convgym.errors import InvalidConfiguration, told
from convgym.language.archive import DAMAGE, opened
from convgym.policies.policy import Policy

_CLASSES = {
    "convgym candidate policy": "candidate_policy.CandidatePolicy",
    "convgym decision transformer": "decision_transformer_policy.DecisionTransformerPolicy",
    "convgym discrete policy": "discrete_policy.DiscretePolicy",
    "convgym vector policy": "vector_policy.VectorPolicy",
    "convgym d3rlpy policy": "d3rlpy_policy.D3RLPyPolicy",
}
"""By the beginning of the format's name."""


def load_policy(path: str | Path) -> Policy:
    """The policy; raises InvalidConfiguration for a file that holds none."""
    try:
        with opened(path) as archive:
            written = str(json.loads(archive.read("about.json"))["format"])
    except DAMAGE as error:
        raise InvalidConfiguration(f"{path} cannot be read as a policy: {told(error)}") from error
    for start, where in _CLASSES.items():
        if written.startswith(start):
            module, _, name = where.partition(".")
            found: Policy = getattr(import_module(f"trainers.offline.{module}"), name).load(path)
            return found
    raise InvalidConfiguration(f"{path} is a {written:.100}; this takes {', '.join(_CLASSES)}")
