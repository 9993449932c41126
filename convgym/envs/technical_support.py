"""`ConvGym/TechnicalSupport-v0`: a provider's support desk, and a device in a customer's hands."""

from __future__ import annotations

from typing import Any

from convgym.domains.technical_support import role
from convgym.domains.technical_support.desk import SupportDesk
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.domain import Domain
from convgym.users.generative import Describe, Read

MAX_TURNS = 70
"""Flawless support takes 15 agent turns, rarely more than 30; an unreliable customer up to 60."""


class TechnicalSupportEnv(ConversationEnv):
    """A customer writes about a device that does not work; the agent has it looked at and mended.

    ## Description
    One of six kinds of device (router, phone, TV box, laptop, printer, camera) has one to three of
    90 faults, in causal order: what is broken hides what comes after it, and only the first fault
    shows. The customer tells the symptom. The agent identifies the account, finds out which device
    is meant, reads it, has the customer look at things and do things, reads the provider's side
    (line, plan, area) and makes changes from there after a yes, until the customer has seen that
    it works; or it books what cannot be mended, or refuses for the right reason with the right
    alternative, or transfers what the rules reserve for people. The policy document changes from
    episode to episode: what has to come first, who is helped, what it costs.
    The customer acts on the one device: does what it is asked, leaves it and says so, or only
    claims to have done it; sees wrong, or cannot tell; asks how where its expertise does not
    suffice, until it is explained. Every slip ends when it is asked again, so that who doubts a
    report can find out (`convgym.domains.technical_support.customer`). Eleven traits tilt each of
    its choices.

    ## Action Space
    `action="text"`: a reply of at most 4,096 characters, speech and tool calls mixed. A call
    is `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, a bare
    `{"name": ..., "arguments": ...}`, or `{"tool_calls": [...]}`; `<think>...</think>` is
    dropped. Calls run first, then the speech is heard, against what they have read; a transfer
    or an ending comes last. A reply of calls alone, or with mere pastime beside them ("let me
    check"), keeps the floor. At most four calls a reply. Of several steps in one reply the customer
    does the first.
    `action="act"`: `Discrete(113)`, one act of speech or one tool call: 22 things to look at,
    28 to do, the desk's own reads and writes on the device read last. Legal acts:
    `info["action_mask"]`, `action_masks()`: what the kind of device has, once it is known. An
    illegal act is an error; five errors end the episode.
    `action="embedding"`: `Box(-1, 1, (256,), float32)`, decoded to the act whose candidate reply,
    among those of the legal acts, is nearest by cosine; its length does not count, of candidates
    as near the first is taken, so a vector of zeros is the first legal act. The candidates, one
    fixed wording for each act, and their vectors: `env.unwrapped.candidates`, `candidate_vectors`;
    `action_space.sample()` draws one of these.

    ## Observation Space
    | `observation` | space | what |
    |---|---|---|
    | `message` | `Text(4096)` | what the newest step brought, alone: partially observed |
    | `transcript` | `Text(24576)` | policy, tools and the whole conversation |
    | `dict` | `Dict` | `policy`, `tools`, `message`, `tool_results`, `view`, `turn`, `features` |
    | `features` | `Box(0, 255, (407,), float32)` | belief: what was seen, heard, told and done |
    | `embedding` | `Box(-1, 1, (1024,), float32)` | vectors of the newest `messages` |

    `embedding` holds the vectors that `encoder` gives the newest messages, the newest first, zeros
    where there are fewer. A message is what the customer said, what the tools of one step answered
    together, or the agent's reply: in text mode as it was sent, else the candidate of its act.
    `view` is a JSON of all that is in sight; the cells of `features` have names
    (`convgym.domains.technical_support.dialogue.LAYOUT`): each value of each check as it was last
    seen, before or since the last operation; how often each step was asked for, and how many
    operations ago it was reported as done. The customer's words are made from what it does: up to
    `realism` 0.5 a growing share is found whole in an index instead of being put together; above, a
    growing share is worded by `writer`, whose words are used only if they keep what is done and
    every value.

    ## Starting State
    A task of `split`, a persona and a wording, each drawn from its own key; the customer has said
    its first words. `difficulty` moves the draw of tasks towards easier or harder ones, and the
    persona towards patience, expertise and compliance or away from them.

    ## Rewards
    `reward="success"`: 1 once, at the end, if the device works and the customer has seen it, or the
    right booking was made and told, or the right refusal taken, or the right transfer made, with no
    obligation broken and no needless write; else 0.
    `"graded"`: at termination, a sum of evidence in [0, 1], 0 where an obligation was broken;
    nothing at truncation, where learners bootstrap.
    `"milestones"`: success plus `discount` Φ(s') − Φ(s), Φ the evidence so far, 0 at termination.

    ## Episode End
    Terminated: the customer leaves, content or not; a transfer; the agent hangs up; five errors.
    Truncated: `max_turns` agent turns; a writer that fails (`failure_reason` begins with
    `writer_failed`), or a model as customer that does (`user_failed`).

    ## Information
    The same keys at reset and every step: `task_id`, `split`, `turn`, `difficulty` (-1 where none
    is set), `wording` (template, retrieval, writer, fallback, model; empty where the customer said
    nothing), `user_acts` (JSON), `user_log_prob` (nats, of the customer's choices; for calibration,
    not for the agent, whom it can tell that a step was only claimed), `tool_results`, `errors`,
    `violations`, `milestones` (0 until the end unless the reward is "milestones", which tells as
    much), `action_mask`, `cost_characters`, `success`, `reward_terms` (JSON), `failure_reason`,
    `oracle_length` (at the end); `privileged` (JSON) only on request. With `action="embedding"`
    `candidate` beside them: the act that was taken, -1 at reset.

    ## Arguments
    | parameter | default | |
    |---|---|---|
    | `observation` | `"message"` | see above |
    | `action` | `"text"` | `"text"`, `"act"` or `"embedding"` |
    | `split` | `"train"` | `"train"`, `"validation"`, `"test"`: no customer in common; \
`"test_compositional"`: pairs of faults that training never has; `"test_primitive"`: new faults; \
`"test_policy"`: a new rule that decides or has to be followed; `"test_persona"`, \
`"test_lexical"`: new persons, new words |
    | `task_id` | None | play one task, such as `"test-17"` |
    | `topic` | None | a kind of device alone: `"router"`, `"phone"`, `"tv_box"`, `"laptop"`, \
`"printer"`, `"camera"` |
    | `difficulty` | None | 0 (easy) to 1 (hard); None takes tasks and personas as they come |
    | `persona` | None | name of a built-in one, mapping of traits (a pair is a range); None draws |
    | `style` | None | how it writes: a name or a mapping; None writes as the persona does |
    | `response_diversity` | 1.0 | 0 always words an act alike, 1 uses all fitting wordings |
    | `realism` | None | 0 templates, 0.5 whole turns from an index, or a fitted user's \
probabilities and words, above with `writer`; None: 0, or 0.5 with a fitted user |
    | `writer` | None | callable that words a turn (`convgym.language.writing`) |
    | `randomizer` | None | `convgym.randomization.DomainRandomizer` or its fields as a mapping |
    | `user` | None | path of a user fitted to logs (`convgym.calibration.calibrate`, or \
`convgym.data.fit_user`); or a language model that plays the customer, in text mode: a \
`ChatModel`, `{"kind": "endpoint", "url": ..., "model": ...}` or `{"kind": "local", "model": ...}` |
    | `phrases` | None | the customer's wordings: `"train"` or `"held_out"`; None takes those of \
the split |
    | `reranker` | None | True, or an object with `propose(text)`: a second look at unread replies |
    | `reward` | `"success"` | see above |
    | `discount` | 1.0 | γ of the milestones' shaping; the learner's |
    | `max_turns` | 70 | agent turns, 2 to 200 |
    | `privileged` | False | put the hidden goal into `info` |
    | `render_mode` | None | `"ansi"` or `"human"` |
    | `messages` | 4 | messages in an embedding, 1 to 64 |
    | `encoder` | `"hashed"` | what makes vectors of texts: `"hashed"`, `"hashed:512"` of 512 \
numbers, or an `Encoder` (`convgym.language.encoders`) |

    `reset(options=)` takes `task_id`, `user_seed` and `wording_seed`, to replay one task with
    other customers or one customer in other words, and `split`, `topic`, `difficulty`, `persona`
    and `style` for this episode. A randomizer's curriculum follows the agent steps of this
    environment.

    ## Vectorized environment
    `gym.make_vec(...)`: as the synchronous one, and the words of all rows are asked of a writer at
    once. `"async"` is right too: text survives its shared memory.

    ## Version History
    * v0: first version; the embedding modes, which came later, move nothing in the others.
    """

    def __init__(
        self,
        observation: str = "message",
        action: str = "text",
        split: str = "train",
        task_id: str | None = None,
        topic: str | None = None,
        difficulty: float | None = None,
        persona: Any = None,
        style: Any = None,
        response_diversity: float = 1.0,
        realism: float | None = None,
        writer: Any = None,
        randomizer: Any = None,
        user: Any = None,
        phrases: str | None = None,
        reranker: Any = None,
        reward: str = "success",
        discount: float = 1.0,
        max_turns: int = MAX_TURNS,
        privileged: bool = False,
        render_mode: str | None = None,
        messages: int = 4,
        encoder: Any = "hashed",
    ) -> None:
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
            realism=realism,
            writer=writer,
            randomizer=randomizer,
            user=user,
            phrases=phrases,
            reranker=reranker,
            reward=reward,
            discount=discount,
            max_turns=max_turns,
            privileged=privileged,
            render_mode=render_mode,
            messages=messages,
            encoder=encoder,
        )

    def make_domain(self) -> Domain:
        """The desk."""
        return SupportDesk()

    def make_role(self) -> tuple[Describe, Read]:
        """The customer as it is described to a model, and the reading of its words."""
        return role.describe, role.read
