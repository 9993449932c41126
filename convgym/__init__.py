"""ConvGym: agents that talk with people, on the standard reinforcement-learning interface.

The way of one conversation, and the file that owns each box:

    Task drawn ─► reset ─► observation ─► policy ─► action ─► codec ─► AgentTurn
    engine/tasks.py  envs/conversation_env.py  policies/           │    engine/acts.py
                                                                   ▼
    evaluation ◄─ policy ◄─ learner.fit ◄─ Minari episode ◄─ engine.apply ─► UserTurn, results
    evaluation/             trainers/      data/             engine/engine.py  users/agenda.py

`import convgym` registers the Gymnasium ids and needs numpy and gymnasium only.
"""

from convgym.envs.registration import ENVIRONMENTS, register_envs
from convgym.errors import ConvGymError

__version__ = "0.1.0"
__all__ = ["ENVIRONMENTS", "ConvGymError", "__version__", "register_envs"]

register_envs()
