"""What a language model's learner minimises, as a value put together from parts; the presets.

    Objective = credit × ratio × clip × aggregation × KL × correction  (+ value, entropy, …)

    credit       which token gets what advantage A       trainers.llm.credit
    the others   what the loss of a token is             trainers.llm.objective_loss

An algorithm is a preset of a few lines at the end of this file, never a class with a loop. Change
one with `dataclasses.replace(GRPO, kl=KLPenalty())`. Knows nothing of models or of tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from convgym.errors import InvalidConfiguration
from trainers.llm.credit import (
    CreditAssignment,
    DiscountedReturns,
    GeneralizedAdvantage,
    GroupRelative,
)
from trainers.llm.losses import Action, Aggregation, Estimator, Level

Ratio = Literal["none", "token", "sequence", "sequence_token", "group_expectation"]


def _one_of(name: str, value: str, allowed: Any) -> None:
    if value not in get_args(allowed):
        raise InvalidConfiguration(f"{name}={value!r}; it is one of {', '.join(get_args(allowed))}")


def _not_negative(name: str, value: float) -> None:
    if not value >= 0:
        raise InvalidConfiguration(f"{name}={value}; it must be 0 or more")


@dataclass(frozen=True, kw_only=True)
class Clip:
    """−min(w A, clip(w, 1 − low, 1 + high) A) (arXiv:1707.06347; two ends: arXiv:2503.14476)."""

    low: float = 0.2
    """ε below 1."""
    high: float = 0.2
    """ε above 1."""
    dual: float | None = None
    """The largest ratio that a negative advantage counts with; verl has 3, trl none."""

    def __post_init__(self) -> None:
        if not (0 <= self.low <= 1 and self.high >= 0):
            raise InvalidConfiguration(
                f"low={self.low}, high={self.high}; low is in [0, 1] and high is 0 or more"
            )
        if self.dual is not None and not self.dual > 1 + self.high:
            raise InvalidConfiguration(f"dual={self.dual}; it must be above {1 + self.high}")


@dataclass(frozen=True, kw_only=True)
class WeightCap:
    """−sg[clip(w, floor, cap)] A ℓ: no token loses its gradient (CISPO, arXiv:2506.13585)."""

    cap: float = 5.0
    """The bound itself: 1 + ε of MiniMax, `epsilon_high` of trl."""
    floor: float = 0.0
    """verl bounds from below too."""

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1 <= self.cap:
            raise InvalidConfiguration(
                f"floor={self.floor}, cap={self.cap}; they enclose 1, and floor is 0 or more"
            )


@dataclass(frozen=True, kw_only=True)
class KLPenalty:
    """β KL(π ‖ reference), added to every token's loss.

    On policy k2 has its gradient, k3 that of KL(reference ‖ π), and k1, uncorrected, mere noise.
    """

    coefficient: float = 0.04
    """β."""
    estimator: Estimator = "k3"
    """k1, k2 or k3 of `losses.kl`."""
    corrected: bool = False
    """Whether it is weighted by the ratio, as samples are the old policy's (trl does)."""

    def __post_init__(self) -> None:
        _one_of("estimator", self.estimator, Estimator)
        _not_negative("coefficient", self.coefficient)


@dataclass(frozen=True, kw_only=True)
class SamplerCorrection:
    """Truncated importance weights where another program sampled (vLLM, or other precision)."""

    level: Level = "sequence"
    """Of a token, or of the row."""
    action: Action = "mask"
    """What is above the cap becomes the cap ("truncate") or 0 ("mask")."""
    cap: float = 3.0
    """trl's C."""

    def __post_init__(self) -> None:
        _one_of("level", self.level, Level)
        _one_of("action", self.action, Action)
        if not self.cap >= 1:
            raise InvalidConfiguration(f"cap={self.cap}; it must be 1 or more")


@dataclass(frozen=True, kw_only=True)
class ValueLoss:
    """c_v · ½ (V − R)² over tokens."""

    coefficient: float = 0.5
    """c_v."""
    clip: float | None = 0.2
    """How far from its old value a value counts; None: any distance."""

    def __post_init__(self) -> None:
        _not_negative("coefficient", self.coefficient)
        if self.clip is not None and not self.clip > 0:
            raise InvalidConfiguration(f"clip={self.clip}; it must be above 0, or None")


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Advantage × ratio × clip × aggregation × KL × correction.

    L = agg[ u · surrogate(w, A) + β KL − c_e H ] + c_v · ½ E (V − R)² − μ · mean ℓ of good rows
    """

    credit: CreditAssignment = field(default_factory=GroupRelative)
    """How rewards become advantages A."""
    ratio: Ratio = "token"
    """w; "none" is −A ℓ, without any."""
    clip: Clip | WeightCap | None = Clip()
    """None: −w A."""
    aggregation: Aggregation = "row_mean"
    """How losses of tokens become one: "row_mean", "token_mean" or "constant"."""
    length: int = 1
    """Tokens that "constant" divides a row's sum by."""
    kl: KLPenalty | None = None
    """Where there is a reference to stay near."""
    correction: SamplerCorrection | None = None
    """u, where sampler and trainer disagree."""
    value: ValueLoss | None = None
    """For objectives with a critic."""
    entropy_coefficient: float = 0.0
    """c_e."""
    positive_coefficient: float = 0.0
    """VAPO's μ: likelihood of rows that went well."""
    count_empty_rows: bool = False
    """Whether means over rows count rows without tokens (trl does, verl and OpenRLHF do not)."""

    def __post_init__(self) -> None:
        _one_of("ratio", self.ratio, Ratio)
        _one_of("aggregation", self.aggregation, Aggregation)
        _not_negative("entropy_coefficient", self.entropy_coefficient)
        _not_negative("positive_coefficient", self.positive_coefficient)
        if self.length < 1:
            raise InvalidConfiguration(f"length={self.length}; it must be 1 token or more")
        if self.ratio == "none" and self.clip is not None:
            raise InvalidConfiguration(
                'ratio="none" leaves nothing to clip; give clip=None, or another ratio'
            )


# -- presets ---------------------------------------------------------------------------------------

GRPO = Objective()
"""Group-relative policy optimisation (arXiv:2402.03300), which adds `KLPenalty()`."""

BNPO = Objective(aggregation="token_mean")
"""GRPO whose mean is over the tokens of the step (trl's `bnpo`, with the window's count)."""

DAPO = Objective(clip=Clip(low=0.2, high=0.28), aggregation="token_mean")
"""Clip-higher and token means (arXiv:2503.14476); its sampling and shaping are the loop's."""

DR_GRPO = Objective(credit=GroupRelative(scale="none"), aggregation="constant", length=512)
"""GRPO without the two biases (arXiv:2503.20783): no std, and one constant length for all rows."""

GSPO = Objective(ratio="sequence", clip=Clip(low=3e-4, high=4e-4))
"""Ratios of whole rows (arXiv:2507.18071, eq. 5), which lie much nearer to 1 than tokens' do."""

GSPO_TOKEN = Objective(
    credit=GroupRelative(credit="turn"), ratio="sequence_token", clip=Clip(low=3e-4, high=4e-4)
)
"""GSPO with an advantage for every turn (arXiv:2507.18071, eq. 13)."""

GEPO = Objective(ratio="group_expectation")
"""Ratios to the group's expected probability (arXiv:2508.17850)."""

CISPO = Objective(clip=WeightCap(cap=5.0), aggregation="token_mean")
"""Capped weights, every token has a gradient (arXiv:2506.13585; cap: ScaleRL, arXiv:2510.13786)."""

RLOO = Objective(
    credit=GroupRelative(baseline="leave_one_out", scale="none"), aggregation="token_mean"
)
"""The group's other rows as baseline (arXiv:2402.14740).

Differs from the paper: ratios and a clip, so that a batch serves several steps; a token's mean.
"""

REINFORCE_PP = Objective(credit=DiscountedReturns(), aggregation="token_mean")
"""No groups, advantages whitened over the batch (arXiv:2501.03262).

Differs from the paper: a KL penalty, if any, is in the loss and not in the reward.
"""

PPO = Objective(credit=GeneralizedAdvantage(), aggregation="token_mean", value=ValueLoss())
"""A critic and generalised advantages (arXiv:1707.06347)."""

VAPO = Objective(
    credit=GeneralizedAdvantage(alpha=0.05, critic_lam=1.0, whitened=False),
    clip=Clip(low=0.2, high=0.28),
    aggregation="token_mean",
    value=ValueLoss(),
    positive_coefficient=0.1,
)
"""λ by length, plain returns for the critic, likelihood of good rows too (arXiv:2504.05118)."""

A2C = Objective(
    credit=GeneralizedAdvantage(lam=1.0, whitened=False),
    ratio="none",
    clip=None,
    aggregation="token_mean",
    value=ValueLoss(clip=None),
)
"""Advantage actor-critic (arXiv:1602.01783): one step on fresh conversations."""

PRESETS = {
    "grpo": GRPO,
    "bnpo": BNPO,
    "dapo": DAPO,
    "dr_grpo": DR_GRPO,
    "gspo": GSPO,
    "gspo_token": GSPO_TOKEN,
    "gepo": GEPO,
    "cispo": CISPO,
    "rloo": RLOO,
    "reinforce++": REINFORCE_PP,
    "ppo": PPO,
    "vapo": VAPO,
    "a2c": A2C,
}
