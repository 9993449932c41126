"""`ConvGym/OneRequest-v0`: the customer-service desk cut down to what a tiny model can learn.

    CustomerService-v0   action="text", observation="dict"
    └─ OneRequest        episodes of one request alone, of one topic
       └─ ToolHandles    email:1, item:2 for values; results without keys that nobody needs

The customers, their words, the tools, the rules that apply and the verdict are those of the desk;
only which of its episodes are played, and how long they are to read, is chosen here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import gymnasium as gym

from convgym.domains.customer_service.world import ITEMS
from convgym.engine.tasks import parse_task_id
from convgym.envs.customer_service import CustomerServiceEnv
from convgym.envs.handles import ToolHandles

NOT_FOR_STATUS = (
    "amount", "bought", "category", "customer", "days", "handle", "hold", "returned", "returns",
    "stock", "town",
)  # fmt: skip
"""Keys of tool results that nobody needs who only wants to know where an order is."""


class OneRequest(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Plays the episodes of a desk whose customer wants one thing; the others are left out.

    An episode with more is passed over for the next of the same seed, so that the same seed gives
    the same episode, and all that is drawn stays as the environment draws it. Where a task is
    fixed by its id, that task is played.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode with one request."""
        observation, info = self.env.reset(seed=seed, options=options)
        while not self._fits(info["task_id"], options):
            observation, info = self.env.reset(options=options)
        return observation, info

    def _fits(self, task_id: str, options: dict[str, Any] | None) -> bool:
        base: Any = self.env.unwrapped
        if "task_id" in base.fixed or "task_id" in (options or {}):
            return True
        return len(base.domain.task(*parse_task_id(task_id)).requests) == 1


def one_request(
    topic: str | None = "status",
    dropped: Collection[str] = NOT_FOR_STATUS,
    difficulty: float | None = 0.2,
    reward: str = "graded",
    max_turns: int = 30,
    observation: str = "dict",
    **keywords: Any,
) -> gym.Env[Any, Any]:
    """Customers with one request, values as handles: a Dict of texts in, a text out.

    `observation` may be "message" or "transcript" too. `topic`, `difficulty`, `reward`,
    `max_turns` and all other keywords are those of `CustomerServiceEnv`; `dropped` are the keys
    that `ToolHandles` leaves out of results: with another topic other keys are needed.
    """
    env = CustomerServiceEnv(
        observation=observation,
        topic=topic,
        difficulty=difficulty,
        reward=reward,
        max_turns=max_turns,
        **keywords,
    )
    goods = [str(item[0]) for item in ITEMS]
    return ToolHandles(OneRequest(env), dropped=tuple(dropped), known={"item": goods})
