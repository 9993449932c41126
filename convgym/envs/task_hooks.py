"""What a task of one's own says about itself; `TaskEnvironment` does the rest.

    a task:    draw_task    policy, tools    succeeded, progress
    its user:  open ─► answer ─► answer ─► …          give_up

Every method here may be overridden; those that raise have to be. See `TaskEnvironment`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from convgym.engine import keys
from convgym.engine.tasks import SPLITS, parse_task_id, split_key
from convgym.envs.episode_setup import EpisodeSetup
from convgym.envs.reply import Reply
from convgym.envs.task_episode import Answer, Draws, TaskEpisode
from convgym.language.style import Style
from convgym.randomization.personas import PersonaGenerator
from convgym.users.persona import Persona


def tool(description: str, **arguments: Sequence[str]) -> dict[str, Any]:
    """The schema of a tool; each argument is a text, one of the given ones unless none is given."""
    properties: dict[str, dict[str, Any]] = {
        name: {"type": "string", "enum": list(allowed)} if allowed else {"type": "string"}
        for name, allowed in arguments.items()
    }
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"description": description, "parameters": schema}


MOST_TURNS = 200
"""Agent turns that any task may take."""


class TaskHooks:
    """The hooks and their defaults."""

    name = "task"
    policy = ""
    topics: tuple[str, ...] = ()
    tools: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    utterances: tuple[str, ...] = (
        "Hello, how can I help you?",
        "Could you tell me more about that?",
        "One moment, please.",
        "I am sorry to hear that.",
        "Is there anything else I can do for you?",
        "Goodbye.",
        "",
    )
    """What `action_space.sample()` says."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names of reset options, by name."""

    def _missing(self, hook: str) -> NotImplementedError:
        """What is raised where a subclass leaves out a hook that has no default."""
        return NotImplementedError(
            f"{type(self).__name__} has no {hook}(); a TaskEnvironment defines draw_task, open, "
            "answer and succeeded, and call where it has tools"
        )

    # -- the task and its user ---------------------------------------------------------------------

    def draw_task(self, draws: Draws) -> Any:
        """A task from draws; the same draws give the same task."""
        raise self._missing("draw_task")

    def open(self, episode: TaskEpisode) -> str | Answer:
        """The user's first words."""
        raise self._missing("open")

    def answer(self, episode: TaskEpisode, reply: Reply) -> str | Answer:
        """What the user answers to a message."""
        raise self._missing("answer")

    def call(self, episode: TaskEpisode, name: str, arguments: Mapping[str, str]) -> str:
        """Run a tool; its arguments have been checked against the schema."""
        raise self._missing("call")

    def succeeded(self, episode: TaskEpisode) -> bool:
        """Whether the task is done, the conversation having ended."""
        raise self._missing("succeeded")

    def progress(self, episode: TaskEpisode) -> float:
        """Evidence of success so far, from 0 to 1."""
        return 0.0

    def policy_document(self, task: Any) -> str:
        """What the agent reads before the conversation."""
        return self.policy

    def view(self, episode: TaskEpisode) -> dict[str, Any]:
        """All that the agent has in sight."""
        return {}

    def hidden(self, episode: TaskEpisode) -> dict[str, Any]:
        """What only `privileged=True` shows."""
        return {"task": episode.task}

    def give_up(self, episode: TaskEpisode) -> str:
        """The last words of a user that has lost patience."""
        return "Forget it, this leads nowhere."

    def oracle_length(self, task: Any) -> int:
        """Agent turns that somebody who knows the task needs; 0 where nobody has counted."""
        return 0

    # -- which task, and how it is played ----------------------------------------------------------

    def pick_task(self, setup: EpisodeSetup, key: int, number: int) -> tuple[str, str, Any]:
        """(task id, split, task) of the `number`-th episode since a seeded reset."""
        if setup.task_id is not None:
            split, place = parse_task_id(setup.task_id)
        else:
            assert setup.split is not None
            split = setup.split
            place = keys.below(keys.draw(key, keys.TASK, 0, 0), SPLITS[split])
        return f"{split}-{place}", split, self.task_at(split, place)

    def task_at(self, split: str, place: int) -> Any:
        """The task of a split that has this number."""
        return self.draw_task(Draws(split_key(self.name, split, place)))

    def check_task_id(self, task_id: Any) -> str:
        """`task_id` itself; raises InvalidConfiguration where there is no such task."""
        parse_task_id(task_id)
        return str(task_id)

    def preferred(self, task: Any) -> tuple[Persona | PersonaGenerator | None, Style | None]:
        """Persona and style that the task itself asks for."""
        return None, None

    def turn_limit(self, task: Any) -> int:
        """Agent turns that this task allows; `max_turns` where that is fewer."""
        return MOST_TURNS
