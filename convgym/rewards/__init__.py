"""Rewards over conversations, for any environment of ConvGym and for logs.

    Conversation + info ─► Outcome ─► a reward ─► Score(value in [0, 1], breakdown)
                           outcome.py    │
         single.py    TaskCompletion  Correctness  Safety  Helpfulness  Engagement
                      Conciseness  SimilarityAware
         combined.py  Composite  MultiObjective  CustomerService  TechnicalSupport  SalesAssistant
         judge.py     Judge            custom.py  @reward_function
         wrapper.py   ConversationReward(env, reward): the environment pays it

Rewards on style cannot see whether anything was solved, and pay agents that solve nothing;
`sees_success` tells. The composites of the domains count style only on top of a solved task.
"""

from convgym.rewards.combined import (
    Composite,
    CustomerService,
    MultiObjective,
    SalesAssistant,
    TechnicalSupport,
)
from convgym.rewards.custom import FunctionReward, reward_function
from convgym.rewards.judge import Judge, read_score
from convgym.rewards.outcome import Outcome, Reward, Score
from convgym.rewards.single import (
    Conciseness,
    Correctness,
    Engagement,
    Helpfulness,
    Safety,
    SimilarityAware,
    TaskCompletion,
)
from convgym.rewards.wrapper import ConversationReward

__all__ = [
    "Composite",
    "Conciseness",
    "ConversationReward",
    "Correctness",
    "CustomerService",
    "Engagement",
    "FunctionReward",
    "Helpfulness",
    "Judge",
    "MultiObjective",
    "Outcome",
    "Reward",
    "Safety",
    "SalesAssistant",
    "Score",
    "SimilarityAware",
    "TaskCompletion",
    "TechnicalSupport",
    "read_score",
    "reward_function",
]
