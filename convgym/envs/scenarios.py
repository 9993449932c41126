"""`ConvGym/Scenarios-v0`: conversations over a user's own scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from convgym.engine import keys
from convgym.engine.tasks import BAND, SPLITS, parse_task_id
from convgym.envs.episode_setup import EpisodeSetup, choose
from convgym.envs.reply import Reply
from convgym.envs.scenario_records import ScenarioRecord, scenarios_of
from convgym.envs.scenario_user import ScenarioUser
from convgym.envs.task_environment import TaskEnvironment
from convgym.envs.task_episode import Answer, TaskEpisode
from convgym.envs.task_hooks import MOST_TURNS
from convgym.errors import InvalidConfiguration
from convgym.language.phrases import packaged_banks
from convgym.language.style import Style
from convgym.randomization.personas import PersonaGenerator
from convgym.users.persona import Persona

POLICY = (
    "You talk with a user. Find out what the user wants, ask for what you need to know, answer "
    "every question and see the matter through. Say only what you know to be true."
)
"""What the agent reads where a scenario has no policy of its own."""
_SHOWN_IDS = 12


class ScenariosEnv(TaskEnvironment):
    """A user of your own scenarios talks with the agent.

    ## Description
    A scenario is a record: `id`, `topic`, `context`, `policy` (what the agent reads),
    `user_responses` (what the user says; the first opens) and `metadata`. The responses are no
    script to be played back: what the agent says brings them out. An answer waits until it is
    asked for; a question or an objection comes once nothing else is open; what nothing answers is
    met with "I don't know", what is off the point with the open request once more. Silence,
    heaps of words, repetition, echoes and early goodbyes are noticed; each costs patience, and in
    the end the user leaves. When everything is out and met, it thanks and leaves content.

    A response is a text, or a mapping of `text` (one wording or several), `id`, `act`
    (request, inform, question, objection, greet, thanks), `when` (phrases of the agent that
    bring it out), `needs` (ids of responses that come first, and what the agent has to have
    brought up: `"agent: refund"`), and `optional`. What a record leaves away is read from the
    words. `metadata` is free; these keys mean something: `success`, `expected_resolution`,
    `persona`, `style`, `difficulty` (0 to 1), `max_turns`, `split`.

    `success` states criteria: `must_mention`, `must_not_mention`, `must_ask` (lists of
    phrases, each a text or a list of alternatives) and `after` (phrase: ids of the responses
    that have to be out before it counts). A phrase counts where the agent asserts it, not where
    it is denied, asked, or tied to a condition. The request is met when all criteria hold; an
    answer that nobody asked for then need not come out. Without criteria, success means that every
    response was drawn out (parting words and optional ones aside), and that the user left
    content. For a verdict in Python override `succeeded`.

    ## Action Space
    A `UtteranceSpace(4096)`: a reply of at most 4,096 characters. The only tool is
    `end_conversation`; a malformed or unknown call is an error, five errors end the episode.

    ## Observation Space
    | `observation` | space | what |
    |---|---|---|
    | `message` | `Text(4096)` | what the user has just said: partially observed |
    | `transcript` | `Text(16384)` | policy, tools and the whole conversation |
    | `dict` | `Dict` | `policy`, `tools`, `message`, `tool_results`, `view`, `turn` |
    | `embedding` | `Box(-1, 1, (1024,), float32)` | vectors of the newest `messages`, as in \
`ConvGym/CustomerService-v0` |

    ## Starting State
    A scenario, a persona and a wording, each drawn from its own key; the user has said its
    first response. With `randomize_scenarios=False` the scenarios come in their order, beginning
    anew with each seeded reset. The persona is that of `reset(options=)`, else the keyword's, else
    the scenario's, else drawn; `difficulty` moves a drawn one, and the draw of scenarios.

    ## Rewards
    `reward="success"`: 1 once, at the end, if the user left content and nothing of
    `must_not_mention` was said; else 0. `"graded"`: at termination ¾ of the share of what had to
    be said, met and stated + ¼ success. `"milestones"`: success plus `discount` Φ(s') − Φ(s), Φ
    being ¾ of that share, 0 at termination. Both are 0 where something forbidden was said.

    ## Episode End
    Terminated: the user leaves, content or out of patience; the agent hangs up; five
    errors. Truncated: `max_turns` agent turns, or the scenario's own `max_turns` where that is
    fewer.

    ## Information
    The same keys at reset and every step: `task_id` (the scenario's id), `split`, `turn`,
    `difficulty` (-1 where none is set), `wording` ("template" where the user spoke), `user_acts`
    (JSON; the value is a response's id), `user_log_prob` (nats, of the user's choices in this
    step), `tool_results`, `errors`, `violations`, `milestones` (Φ; 0 until the end unless the
    reward is "milestones"), `action_mask` (one 1: any text is legal), `cost_characters`, `success`,
    `reward_terms` (JSON), `failure_reason`, `oracle_length` (at the end); `privileged` (JSON) only
    on request.

    ## Arguments
    | parameter | default | |
    |---|---|---|
    | `scenarios` | None | list of records, or the path of a JSONL file; None: the packaged ones |
    | `randomize_scenarios` | True | draw them; False goes through them in order |
    | `show_context` | False | let the agent read a scenario's topic and context |
    | `observation` | `"message"` | see above |
    | `action` | `"text"` | `"text"`; there are no numbered acts, so no candidates either |
    | `split` | `"train"` | scenarios whose `metadata` names this split, and those that name none |
    | `task_id` | None | play one: a scenario's id, or `"test-17"`, the 17th (modulo) of a split |
    | `topic` | None | the scenarios of one topic alone |
    | `difficulty` | None | 0 (easy) to 1 (hard); None takes scenarios and personas as they come |
    | `persona` | None | name of a built-in one, mapping of traits (a pair is a range) |
    | `style` | None | how the user writes: a name or a mapping; None writes as the persona does |
    | `response_diversity` | 1.0 | 0 always words a stock phrase alike, 1 uses all of them |
    | `phrases` | `"train"` | wordings of what is not the author's: `"train"` or `"held_out"` |
    | `user` | None | path of a user fitted to logs, whose probabilities the decision points take |
    | `reward` | `"success"` | see above |
    | `discount` | 1.0 | γ of the milestones' shaping; the learner's |
    | `max_turns` | 30 | agent turns, 2 to 200 |
    | `privileged` | False | put what is hidden into `info` |
    | `render_mode` | None | `"ansi"` or `"human"` |
    | `messages` | 4 | messages in an embedding |
    | `encoder` | `"hashed"` | what makes their vectors: a name, or an `Encoder` |

    `reset(options=)` takes `scenario_id` (or `task_id`), `split`, `topic`, `difficulty`,
    `persona`, `style`, `user_seed` and `wording_seed` for this episode.

    ## Vectorized environment
    `gym.make_vec(...)` is the synchronous one. `"async"` is right too: text
    survives its shared memory.

    ## Version History
    * v0: first version.
    """

    name = "scenarios"
    aliases: ClassVar[dict[str, str]] = {"scenario_id": "task_id"}
    utterances = (
        "Hello, how can I help you?",
        "Could you tell me more about that?",
        "When did that happen?",
        "What have you tried so far?",
        "What is your order number?",
        "One moment, please, let me check.",
        "I am sorry to hear that.",
        "I have taken care of it; it will be done by tomorrow.",
        "Is there anything else I can do for you?",
        "Goodbye.",
        "",
    )

    def __init__(
        self,
        scenarios: Any = None,
        randomize_scenarios: bool = True,
        show_context: bool = False,
        observation: str = "message",
        action: str = "text",
        split: str = "train",
        task_id: str | None = None,
        topic: str | None = None,
        difficulty: float | None = None,
        persona: Any = None,
        style: Any = None,
        response_diversity: float = 1.0,
        phrases: str = "train",
        user: str | None = None,
        reward: str = "success",
        discount: float = 1.0,
        max_turns: int = 30,
        privileged: bool = False,
        render_mode: str | None = None,
        messages: int = 4,
        encoder: Any = "hashed",
    ) -> None:
        for keyword, value in (
            ("randomize_scenarios", randomize_scenarios),
            ("show_context", show_context),
        ):
            if not isinstance(value, bool):
                raise InvalidConfiguration(f"{keyword}={value!r} is not True or False")
        self._records = records = scenarios_of(scenarios)
        self._randomize, self._show_context = randomize_scenarios, show_context
        banks = packaged_banks("convgym.envs", "scenario_phrases.toml")
        self._bank = banks[choose("phrases", phrases, tuple(banks))]
        self._users = {record.id: ScenarioUser(record, self._bank) for record in records}
        self.topics = tuple(dict.fromkeys(record.topic for record in records if record.topic))
        super().__init__(
            observation=observation,
            action=action,
            split=split,
            task_id=task_id,
            topic=topic,
            difficulty=difficulty,
            persona=persona,
            style=style,
            response_diversity=response_diversity,
            user=user,
            reward=reward,
            discount=discount,
            max_turns=max_turns,
            privileged=privileged,
            render_mode=render_mode,
            messages=messages,
            encoder=encoder,
        )
        if task_id is None:
            self._among(self._setup)

    # -- which scenario ----------------------------------------------------------------------------

    def check_task_id(self, task_id: Any) -> str:
        """A scenario's id, or split-number, which counts through the scenarios of a split."""
        if isinstance(task_id, str) and task_id in self._users:
            return task_id
        try:
            split, _ = parse_task_id(task_id)
        except InvalidConfiguration:
            ids = [record.id for record in self._records]
            shown = ", ".join(ids[:_SHOWN_IDS]) + (", …" if len(ids) > _SHOWN_IDS else "")
            raise InvalidConfiguration(
                f"no scenario is called {str(task_id)[:40]!r}; there are {shown}, and names such "
                f"as 'test-17' of split and number, below {min(SPLITS.values())}"
            ) from None
        self._among(EpisodeSetup(split=split))
        return str(task_id)

    def pick_task(self, setup: EpisodeSetup, key: int, number: int) -> tuple[str, str, Any]:
        """The scenario of an episode: named, the next in order, or drawn."""
        split = setup.split or "train"
        if setup.task_id in self._users:
            record = self._users[setup.task_id].record
        elif setup.task_id is not None:
            split, number = parse_task_id(setup.task_id)
            among = self._among(EpisodeSetup(split=split))
            record = among[number % len(among)]
        elif not self._randomize:
            among = self._among(setup)
            record = among[number % len(among)]
        else:
            drawn = keys.draw(key, keys.TASK, 0, 0)
            record = _drawn(self._among(setup), setup.difficulty, drawn)
        return record.id, record.split or split, record

    def _among(self, setup: EpisodeSetup) -> list[ScenarioRecord]:
        """The scenarios that split and topic leave; raises where that is none."""
        topic = None if setup.topic is None else self.topics[setup.topic]
        left = [
            record
            for record in self._records
            if record.split in ("", setup.split) and topic in (None, record.topic)
        ]
        if not left:
            about = "" if topic is None else f" and topic {topic!r}"
            raise InvalidConfiguration(
                f"no scenario is of split {setup.split!r}{about}; name another one, or leave split "
                "out of the scenarios' metadata"
            )
        return left

    def preferred(self, task: Any) -> tuple[Persona | PersonaGenerator | None, Style | None]:
        """Those of the record."""
        return task.persona, task.style

    def turn_limit(self, task: Any) -> int:
        """That of the record."""
        return task.max_turns or MOST_TURNS

    # -- the conversation --------------------------------------------------------------------------

    def open(self, episode: TaskEpisode) -> Answer:
        """The first response."""
        return self._users[episode.task_id].open(episode)

    def answer(self, episode: TaskEpisode, reply: Reply) -> Answer:
        """What the agent's message brings out."""
        return self._users[episode.task_id].answer(episode, reply)

    def give_up(self, episode: TaskEpisode) -> str:
        """Parting words of the persona's register."""
        return episode.phrase(self._bank, "give_up")

    def succeeded(self, episode: TaskEpisode) -> bool:
        """Whether the user left content, which holds all criteria."""
        return bool(episode.notes["memory"].content)

    def progress(self, episode: TaskEpisode) -> float:
        """The share of what has to be said, met and stated that is."""
        return self._users[episode.task_id].progress(episode.notes["memory"])

    # -- what is seen ------------------------------------------------------------------------------

    def policy_document(self, task: Any) -> str:
        """The scenario's policy, or the general one."""
        document = task.policy or POLICY
        if self._show_context:
            about = [("Topic", task.topic), ("Context", task.context)]
            document += "".join(f"\n\n{name}: {text}" for name, text in about if text)
        return document

    def view(self, episode: TaskEpisode) -> dict[str, Any]:
        """Topic and context, where they are shown."""
        if not self._show_context:
            return {}
        return {"topic": episode.task.topic, "context": episode.task.context}

    def hidden(self, episode: TaskEpisode) -> dict[str, Any]:
        """The record's purpose, and how far the conversation has got."""
        record, memory = episode.task, episode.notes["memory"]
        wanted = record.criteria.wanted
        return {
            "scenario": record.id,
            "topic": record.topic,
            "context": record.context,
            "expected_resolution": record.expected_resolution,
            "said": [record.ids[place] for place in memory.said],
            "open": [record.ids[place] for place in memory.open],
            "criteria": [
                [one.kind, list(one.phrases), bool(memory.done >> bit & 1)]
                for bit, one in enumerate(wanted)
            ],
        }

    def oracle_length(self, task: Any) -> int:
        """One turn for each response that has to come out, and one that meets the last."""
        return self._users[task.id].shortest


def _drawn(among: Sequence[ScenarioRecord], difficulty: int | None, drawn: int) -> ScenarioRecord:
    """The scenario that a 32-bit draw selects; with a difficulty from that band of them."""
    if difficulty is None:
        return among[keys.below(drawn, len(among))]
    ordered = sorted(among, key=lambda record: record.difficulty)
    width = max(1, len(ordered) * BAND // 100)
    begin = (len(ordered) - width) * difficulty // 100
    return ordered[begin + keys.below(drawn, width)]
