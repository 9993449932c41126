"""The algorithms by their names: each a configuration of the one loop with a preset objective.

    GSPOConfig(learning_rate=1e-6)                       PolicyOptimizerConfig(objective="gspo", …)
    GSPOConfig.from_training_config(config)              another one's numbers, this objective
    GSPOConfig.from_training_config({"iterations": 10})

Nothing is here but names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainers.llm.policy_config import PolicyOptimizerConfig, TrustRegion


class PresetConfig:
    """Makes configurations of one preset; options are those of `PolicyOptimizerConfig`."""

    def __init__(self, objective: str, **defaults: Any) -> None:
        self.objective, self._defaults = objective, defaults

    def __call__(self, **options: Any) -> PolicyOptimizerConfig:
        """Raises InvalidConfiguration for options that there are not."""
        return PolicyOptimizerConfig().changed(
            **{"objective": self.objective, **self._defaults, **options}
        )

    def from_training_config(
        self, config: PolicyOptimizerConfig | Mapping[str, Any], **changes: Any
    ) -> PolicyOptimizerConfig:
        """The numbers of another configuration, or of some of its options, with this objective."""
        if isinstance(config, Mapping):
            config = PolicyOptimizerConfig.from_dict(config)
        return config.changed(**{"objective": self.objective, **self._defaults, **changes})


GRPOConfig = PresetConfig("grpo")
GSPOConfig = PresetConfig("gspo")
GSPOTokenConfig = PresetConfig("gspo_token")
DAPOConfig = PresetConfig("dapo", resample=3)
DrGRPOConfig = PresetConfig("dr_grpo")
BNPOConfig = PresetConfig("bnpo")
GEPOConfig = PresetConfig("gepo")
CISPOConfig = PresetConfig("cispo")
RLOOConfig = PresetConfig("rloo")
ReinforcePPConfig = PresetConfig("reinforce++")
PPOConfig = PresetConfig("ppo")
VAPOConfig = PresetConfig("vapo")
A2CConfig = PresetConfig("a2c", minibatches=1, epochs=1)
TRPOConfig = PresetConfig("grpo", trust_region=TrustRegion())
