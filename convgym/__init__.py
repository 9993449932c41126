"""ConvGym: agents that talk with people, on the standard reinforcement-learning interface.

The way of one conversation, and the file that owns each box:

    Task drawn ─► reset ─► observation ─► policy ─► action ─► codec ─► AgentTurn
    engine/tasks.py  envs/conversation_env.py  policies/           │    engine/acts.py
                                                                   ▼
    evaluation ◄─ policy ◄─ learner.fit ◄─ Minari episode ◄─ engine.apply ─► UserTurn, results
    evaluation/             trainers/      data/             engine/engine.py  users/agenda.py

`import convgym` registers the Gymnasium ids, tells Minari of remotes in folders and on web servers,
and needs numpy and gymnasium only.
"""

from typing import Any

from convgym.envs.registration import ENVIRONMENTS, register_envs
from convgym.errors import ConvGymError
from convgym.minari_remotes import register_remotes

__version__ = "0.1.0"
__all__ = ["ENVIRONMENTS", "ConvGymError", "__version__", "load_dataset", "register_envs"]

register_envs()
register_remotes()


def load_dataset(dataset_id: str, **keywords: Any) -> Any:
    """A Minari dataset by its id: local, packaged, downloaded or built; see `data.loading`."""
    from convgym.data.loading import load_dataset as load  # brings Minari with it

    return load(dataset_id, **keywords)
