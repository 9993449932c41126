"""How replies are drawn from a model, and how long they may be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from convgym.errors import InvalidConfiguration
from trainers.option_kinds import check_kinds


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Softmax of logits / temperature, drawn by inverse distribution function.

    Training wants `top_p=1` and `top_k=0`: the learner scores the whole distribution, so with less
    of it a reply's recorded log-probability is not that of how it was drawn. Raises
    InvalidConfiguration for what is out of range.
    """

    temperature: float = 1.0
    """What logits are divided by, in the learner too. 0 takes the likeliest token, and records
    log-probabilities at temperature 1: for evaluation, not for training."""
    top_p: float = 1.0
    """Only the likeliest tokens that together have this probability are drawn; 1: all."""
    top_k: int = 0
    """Only so many of the likeliest tokens are drawn; 0: all."""
    max_tokens: int = 64
    """Tokens of a reply, the one that ends it included."""
    max_context: int = 1024
    """Tokens of a conversation; when they are used up it is cut off."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 0 <= self.temperature < float("inf"):
            raise InvalidConfiguration(f"temperature={self.temperature}; it must be 0 or more")
        if not 0 < self.top_p <= 1:
            raise InvalidConfiguration(f"top_p={self.top_p}; it must be in (0, 1]")
        if self.top_k < 0:
            raise InvalidConfiguration(f"top_k={self.top_k}; it must be 0, for all, or more")
        if self.max_tokens < 1 or self.max_context < 2:
            raise InvalidConfiguration(
                f"max_tokens={self.max_tokens}, max_context={self.max_context}; a reply has at "
                "least 1 token and a conversation at least 2"
            )

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `Sampling(**stored)` reads it back."""
        return asdict(self)
