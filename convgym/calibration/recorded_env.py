"""`ConvGym/Recorded-v0`: talk with users like those of a log, about what they talked about.

    calibrate(log).save("user.npz")
    env = gym.make("ConvGym/Recorded-v0", user="user.npz")

The domain is the log's: its acts, its slots, its users' agendas and words. Other environments take
the same file for the users of a domain of their own; here there is nothing but the log.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from convgym.calibration.agent_reader import AgentReader
from convgym.calibration.calibration import Calibration
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.recorded_agent import LISTENING
from convgym.calibration.signatures import SILENCE, Heard
from convgym.calibration.speaker import Speaker, Templates
from convgym.engine import keys
from convgym.engine.tasks import SPLITS
from convgym.envs.episode_setup import hundredths
from convgym.envs.reply import Reply
from convgym.envs.task_environment import TaskEnvironment
from convgym.envs.task_episode import Answer, TaskEpisode
from convgym.errors import InvalidConfiguration
from convgym.language.style import Style
from convgym.randomization.personas import PersonaGenerator
from convgym.users.persona import TRAITS, Persona

VERBOSITY, PATIENCE = TRAITS.index("verbosity"), TRAITS.index("patience")
PARTS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}
"""Tenths of the log's users that a split's agendas come from; other splits take test's."""
_TENTHS = 10
_SCRIPTED = 7000
"""Number of a turn's draw of whether it keeps to the script."""
HURRY = 4.0
"""How much the logit of leaving changes from all patience to none."""


class RecordedEnv(TaskEnvironment):
    """Users of a log, to talk with.

    ## Description
    Each user comes with the agenda of a real one: what that one said, act by act. Which open point
    comes next, whether it is the last turn, and in which of the log's words it is said hangs on
    what the agent did and on all before, as counted in the log (`convgym.calibration`). Agents are
    read as the log labels its own.

    A log says how people talk, not what a business owes them: `success` is that the user has said
    all that it came for, and `progress` the share of it. Bring a reward of your own for more
    (`convgym.rewards`).

    ## Starting State
    A user of `split` (agendas of eight, one and one tenth of the log's users), its persona and
    words drawn from keys of their own; the user has spoken.

    ## Arguments
    As `TaskEnvironment`; and

    | parameter | default | |
    |---|---|---|
    | `user` | needed | path of a saved `convgym.calibration.Calibration` |
    | `realism` | 1.0 | the share of turns that are chosen as the log's users choose; the others \
do what is likeliest. Below 0.5 what is done is always said in its commonest words |

    `persona`: verbosity chooses the style, as the log's users are ranked; patience tilts the
    chance of leaving, its logit by `HURRY` from end to end. Without one a user has the style of
    the one whose agenda it has. The log's words are those of people with styles: `style` adds its
    misspellings to them and nothing else, `response_diversity` does nothing.

    ## Version History
    * v0: first version.
    """

    name = "recorded"
    policy = (
        "You are the agent of a service. A user writes to you; find out what it wants, and help it."
    )
    utterances = (*LISTENING, "What else can I do for you?", "Could you tell me more?", "")

    def __init__(
        self, user: str | os.PathLike[str] | None = None, realism: float = 1.0, **keywords: Any
    ) -> None:
        if not isinstance(user, str | os.PathLike):
            raise InvalidConfiguration(
                f"user={user!r:.60}; give the path of a saved calibration, as in "
                'gym.make("ConvGym/Recorded-v0", user="user.npz")'
            )
        self._realism = hundredths("realism", realism)
        self._simulator, self._reader = _users(user)
        self._users = {split: self._part(split) for split in SPLITS}
        super().__init__(**keywords)

    def _part(self, split: str) -> list[int]:
        """Users of the log whose agendas a split has; all of them where a part is empty.

        Who said but one thing needs no agent, and is left out.
        """
        tenths, log = PARTS.get(split, PARTS["test"]), self._simulator.log
        talkers = [user for user, logged in enumerate(log) if len(logged.turns) > 1]
        if not talkers:
            raise InvalidConfiguration(
                f"each of the {len(log)} fitted users says one thing and goes; an environment "
                "takes a log in which users answer"
            )
        return [user for at, user in enumerate(talkers) if at % _TENTHS in tenths] or talkers

    @property
    def simulator(self) -> LogSimulator:
        """The fitted users."""
        return self._simulator

    # -- hooks -------------------------------------------------------------------------------------

    def task_at(self, split: str, place: int) -> dict[str, int]:
        """A user of the split; where there are fewer than numbers, they come again."""
        users = self._users[split]
        return {"user": users[place % len(users)]}

    def preferred(self, task: Any) -> tuple[Persona | PersonaGenerator | None, Style | None]:
        """The style of the user whose agenda it is; the log's words have their slips in them."""
        styles = self._simulator.styles
        verbosity = (int(styles.bins[task["user"]]) + 0.5) / styles.count
        return Persona(verbosity=verbosity, name="recorded"), Style(50, round(100 * verbosity))

    def open(self, episode: TaskEpisode) -> Answer:
        """The agenda's first turn."""
        verbosity, patience = (episode.persona[trait] for trait in (VERBOSITY, PATIENCE))
        bins = self._simulator.styles.count
        speaker = self._simulator.speaker(
            episode.task["user"],
            episode.user_key,
            style=min(verbosity * bins // 100, bins - 1),
            hurry=HURRY * (0.5 - patience / 100),
        )
        episode.notes["speaker"] = speaker
        return self._say(episode, SILENCE, ends=False)

    def answer(self, episode: TaskEpisode, reply: Reply) -> Answer:
        """What the user says to a message."""
        return self._say(episode, self._reader.read(reply.text))

    def _say(self, episode: TaskEpisode, heard: Heard, ends: bool | None = None) -> Answer:
        drawn = keys.draw(episode.user_key, keys.USER, episode.user_turns, _SCRIPTED)
        said = self._simulator.say(
            episode.notes["speaker"],
            heard,
            ends,
            words=Templates(self._simulator.bank) if self._realism < 50 else None,
            likeliest=keys.below(drawn, 100) >= self._realism,
        )
        episode.chose(said.log_prob)
        acts, slots = said.signature
        told = tuple((slot, said.values.get(slot, "")) for slot in slots)
        return Answer(said.text, (*((act, "") for act in acts), *told), said.ends)

    def succeeded(self, episode: TaskEpisode) -> bool:
        """Whether the user has said all that it came for."""
        return self.progress(episode) == 1.0

    def progress(self, episode: TaskEpisode) -> float:
        """The share of its agenda that it has said."""
        speaker: Speaker = episode.notes["speaker"]
        return speaker.agenda.share_said

    def view(self, episode: TaskEpisode) -> dict[str, Any]:
        """What kind of conversation it is, where the log says."""
        kind = self._simulator.log[episode.task["user"]].kind
        return {"domain": kind} if kind else {}

    def hidden(self, episode: TaskEpisode) -> dict[str, Any]:
        """The user of the log, and what it has still to say."""
        speaker: Speaker = episode.notes["speaker"]
        return {"task": episode.task, "open": speaker.agenda.signatures()}

    def oracle_length(self, task: Any) -> int:
        """Turns of the agent between those that the log's user said."""
        return len(self._simulator.log[task["user"]].turns) - 1


def _users(path: str | os.PathLike[str]) -> tuple[LogSimulator, AgentReader]:
    """The users of a file, and how they read agents."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}") from error
    return _counted(os.path.realpath(path), found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _counted(path: str, changed: int, size: int) -> tuple[LogSimulator, AgentReader]:
    """A file's users, counted once for all environments; time and size tell a newer file."""
    simulator = Calibration.load(path).simulator()
    return simulator, AgentReader(simulator.log)
