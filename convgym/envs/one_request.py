"""`ConvGym/OneRequest-v0`: a desk cut down to what a tiny model can learn.

    CustomerService-v0 | TechnicalSupport-v0 | Sales-v0     action="text", observation="dict"
    └─ OneRequest        the short episodes of one workflow alone, see `played`
       └─ ToolHandles    email:1, item:2 for values; results without keys that nobody needs

The customers, their words, the tools, the rules that apply and the verdict are those of the desk;
only which of its episodes are played, and how long they are to read, is chosen here. What decides
an episode can be read in messages and results: no policy document is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from convgym.domains.customer_service.world import ITEMS
from convgym.domains.sales import rules
from convgym.domains.sales import tasks as sales_tasks
from convgym.domains.sales import world as shop
from convgym.domains.technical_support import combinations, faults
from convgym.domains.technical_support import tasks as support_tasks
from convgym.domains.technical_support.vocabulary import FIRST_WRITE
from convgym.engine.tasks import parse_task_id
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.customer_service import CustomerServiceEnv
from convgym.envs.episode_setup import choose
from convgym.envs.handles import ToolHandles
from convgym.envs.sales import SalesEnv
from convgym.envs.technical_support import TechnicalSupportEnv
from convgym.errors import InvalidConfiguration

NOT_FOR_STATUS = (
    "amount", "bought", "category", "customer", "days", "handle", "hold", "returned", "returns",
    "stock", "town",
)  # fmt: skip
"""Keys of tool results that nobody needs who only wants to know where an order is."""
NOT_FOR_MENDING = (
    "area", "bill_overdue", "customer", "maker", "model", "months_since_purchase",
    "months_since_replacement", "phone", "plan", "raised_this_month", "room", "serial",
)  # fmt: skip
"""The same for who has one device mended that the account names once."""
NOT_FOR_A_SALE = (
    "clearance", "delivery_days", "discount", "handle", "list_price", "quantity", "stock", "total",
)  # fmt: skip
"""The same for who buys one piece at the list price, of a product that is in stock."""
USUAL = "usual"
"""The domain's own `topic`."""
SHORT_REPAIR, SHORT_SALE = 9, 12
"""Acts that a flawless agent needs at most, with somebody who says only what it is asked."""
MOST_PASSED = 20_000
"""Episodes in a row that are passed over before there is taken to be none to play."""


def one_alone(task: Any) -> bool:
    """Customer service: the customer wants one thing."""
    return len(task.requests) == 1


def short_repair(task: support_tasks.Task) -> bool:
    """Technical support: one fault that the customer mends by hand, on a device easily named."""
    return (
        task.branch == combinations.FIX
        and len(task.faults) == 1
        and any(fix < FIRST_WRITE for fix in faults.FAULTS[task.faults[0]].fixes)
        and task.knowledge in (support_tasks.KNOWS_SERIAL, support_tasks.KNOWS_KIND)
        and task.oracle_length <= SHORT_REPAIR
    )


def short_sale(task: sales_tasks.Task) -> bool:
    """Sales: one piece of the one product that fits, for who knows what it needs and pays it.

    Rules that hold in some episodes only, and are told by the policy document alone, do not.
    """
    return (
        task.branch == sales_tasks.SELL
        and task.quantity == 1
        and task.knowledge in (sales_tasks.CLEAR, sales_tasks.PARTIAL)
        and task.pays(0)
        and not rules.is_on(task.switches, "budget_first")
        and not rules.is_on(task.switches, "addon_first")
        and len(shop.world().shown(task.week, task.category, task.must)) == 1
        and task.oracle_length <= SHORT_SALE
    )


@dataclass(frozen=True)
class Workflow:
    """What of a domain is played, and how it is shown."""

    environment: type[ConversationEnv]
    topic: str | None
    played: Callable[[Any], bool]
    """Whether a task is."""
    dropped: tuple[str, ...]
    """Keys of tool results that nobody needs."""
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Handles for names that no pattern tells."""


WORKFLOWS: dict[str, Workflow] = {
    "customer-service": Workflow(
        CustomerServiceEnv, "status", one_alone, NOT_FOR_STATUS,
        {"item": tuple(str(item[0]) for item in ITEMS)},
    ),
    "technical-support": Workflow(TechnicalSupportEnv, "camera", short_repair, NOT_FOR_MENDING),
    "sales": Workflow(
        SalesEnv, None, short_sale, NOT_FOR_A_SALE,
        {
            "item": shop.EVERY_NAME,
            "goods": shop.CATEGORIES,
            "feature": tuple(name for category in shop.FEATURES for name, _ in category),
            "rival": shop.RIVALS,
        },
    ),
}  # fmt: skip
"""The one workflow of each domain."""


class OneRequest(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Plays the short episodes of one workflow of a desk; the others are left out.

    Which those are is told by the desk's line in `WORKFLOWS`. Another episode is passed over for
    the next of the same seed, so that the same seed gives the same episode, and all that is drawn
    stays as the environment draws it. Where a task is fixed by its id, that task is played.
    Raises InvalidConfiguration for a domain without such a line, and at a reset where no such
    episode comes, as in a split of other tasks.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        base: Any = env.unwrapped
        self._played = WORKFLOWS[choose("domain", base.domain.domain, tuple(WORKFLOWS))].played

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode of the workflow."""
        observation, info = self.env.reset(seed=seed, options=options)
        passed = 0
        while not self._fits(info["task_id"], options):
            passed += 1
            if passed > MOST_PASSED:
                raise InvalidConfiguration(
                    f"none of {passed} episodes of split {info['split']!r} is one that OneRequest "
                    'plays; take split="train", "validation" or "test", or another topic or '
                    "difficulty"
                )
            observation, info = self.env.reset(options=options)
        return observation, info

    def _fits(self, task_id: str, options: dict[str, Any] | None) -> bool:
        base: Any = self.env.unwrapped
        if "task_id" in base.fixed or "task_id" in (options or {}):
            return True
        return self._played(base.domain.task(*parse_task_id(task_id)))


def one_request(
    domain: str = "customer-service",
    topic: str | None = USUAL,
    dropped: Collection[str] | None = None,
    difficulty: float | None = 0.2,
    reward: str = "graded",
    max_turns: int = 30,
    observation: str = "dict",
    handles: bool = True,
    **keywords: Any,
) -> gym.Env[Any, Any]:
    """Customers with one request, values as handles: a Dict of texts in, a text out.

    | `domain` | `topic` | who comes |
    |---|---|---|
    | `"customer-service"` | `"status"` | somebody who wants to know where an order is |
    | `"technical-support"` | `"camera"` | somebody whose camera has a fault mended by one step |
    | `"sales"` | None: all goods | somebody who buys one piece, and pays the list price |

    `observation` may be "message" or "transcript" too. `topic`, `difficulty`, `reward`, `max_turns`
    and all other keywords are those of the domain's environment; `"usual"` is the topic in the
    table, None is every topic. `dropped` are the keys that `ToolHandles` leaves out of results:
    with another topic other keys may be needed. `handles=False` leaves values and results as they
    are, for a model that can copy an order's number.
    Raises InvalidConfiguration for another domain.
    """
    workflow = WORKFLOWS[choose("domain", domain, tuple(WORKFLOWS))]
    env = workflow.environment(
        observation=observation,
        topic=workflow.topic if topic == USUAL else topic,
        difficulty=difficulty,
        reward=reward,
        max_turns=max_turns,
        **keywords,
    )
    if not handles:
        return OneRequest(env)
    leave = workflow.dropped if dropped is None else tuple(dropped)
    return ToolHandles(OneRequest(env), dropped=leave, known=workflow.known)
