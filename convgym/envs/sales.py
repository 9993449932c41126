"""`ConvGym/Sales-v0`: a shop that sells to buyers who haggle."""

from __future__ import annotations

from convgym.domains.sales import role
from convgym.domains.sales.desk import SalesDesk
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.domain import Domain
from convgym.users.generative import Describe, Read


class SalesEnv(ConversationEnv):
    """A buyer with needs, a budget and a price at which they walk away writes to a shop.

    ## Description
    The buyer looks for a product of one of six categories, with one or two features that it must
    have. The agent has tools over a catalogue of 72 products, whose prices, stock and clearance
    flags change from week to week, and a policy document whose rules and numbers change from
    episode to episode. It must find out what is needed, search, read, recommend what fits, and
    quote: at list price first, lower only step by step, only after the buyer has objected to the
    price, never below its authority. It books what was quoted once the buyer has said yes to it,
    or refuses for the right reason (no lower price; sold out, with the waitlist; not carried,
    with the nearest product), or transfers what the rules reserve for people.
    The buyer knows its needs clearly, in part, vaguely, wrongly, or has to check; it may name its
    budget only roughly or not at first. It has a hidden walk-away price: it takes what is at most
    that, perhaps after haggling, and leaves where the agent stays above it. Where that price lies
    is drawn so that P(deal) falls with the last price asked as that of real buyers does: .96, .94,
    .89, .82, .66 from the price it hopes for to the list price, at equal distances
    (`scripts/response_curve.py`). It objects (delivery, trust, a competitor, returns), asks about
    a feature, takes an add-on or does not, and doubts what the agent has not read. Eleven traits
    tilt each of its choices.

    ## Action Space
    `action="text"`: a reply of at most 4,096 characters, speech and tool calls mixed. A call
    is `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, a bare
    `{"name": ..., "arguments": ...}`, or `{"tool_calls": [...]}`; `<think>...</think>` is
    dropped. Calls run first, then the speech is heard, against what they have read; a transfer
    or an ending comes last. A reply of calls alone, or with mere pastime beside them ("let me
    check"), keeps the floor. At most four calls a reply.
    `action="act"`: `Discrete(65)`, one act of speech or one tool call, with a pointer where
    it needs one: the k-th product that the newest search has shown, cheapest first. Legal acts:
    `info["action_mask"]`, `action_masks()`. An illegal act is an error; five errors end the
    episode.
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
    | `features` | `Box(0, 255, (182,), float32)` | belief: what was seen, heard, told and quoted |
    | `embedding` | `Box(-1, 1, (1024,), float32)` | vectors of the newest `messages` |

    `embedding` holds the vectors that `encoder` gives the newest messages, the newest first, zeros
    where there are fewer. A message is what the buyer said, what the tools of one step answered
    together, or the agent's reply: in text mode as it was sent, else the candidate of its act.
    `view` is a JSON of all that is in sight; the cells of `features` have names
    (`convgym.domains.sales.vocabulary.LAYOUT`). The buyer's words are made from what it does: up
    to `realism` 0.5 a growing share is found whole in an index instead of being put together;
    above, a growing share is worded by `writer`, whose words are used only if they keep what is
    done and every value.

    ## Starting State
    A task of `split`, a persona and a wording, each drawn from its own key; the buyer has said
    its first words. `difficulty` moves the draw of tasks towards easier or harder ones, and the
    persona towards patience, accuracy and cooperation or away from them.

    ## Rewards
    All come from the booked quote and what led to it, none from words.
    `reward="success"`: 1 once, at the end, if a product with all that is needed was booked in the
    right quantity at a price the buyer said yes to, or the right refusal or transfer was made,
    and no obligation was broken; else 0.
    `"graded"`: at termination, a sum of evidence in [0, 1], 0 where an obligation was broken. A
    sale earns 0.75 at the lowest price that the rules allow, 1 at the list price, in proportion
    between (`convgym.domains.sales.verdict`); nothing at truncation, where learners bootstrap.
    `"milestones"`: success plus `discount` Φ(s') − Φ(s), Φ the evidence so far, 0 at termination.

    ## Episode End
    Terminated: the buyer leaves, content or not; a transfer; the agent hangs up; five errors.
    Truncated: `max_turns` agent turns; a writer that fails (`failure_reason` begins with
    `writer_failed`), or a model as buyer that does (`user_failed`).

    ## Information
    The same keys at reset and every step: `task_id`, `split`, `turn`, `difficulty` (-1 where none
    is set), `wording` (template, retrieval, writer, fallback, model; empty where the buyer said
    nothing), `user_acts` (JSON), `user_log_prob` (nats, of the buyer's choices; for calibration,
    not for the agent, whom it can tell that a price would be paid), `tool_results`, `errors`,
    `violations`, `milestones` (0 until the end unless the reward is "milestones", which tells as
    much), `action_mask`, `cost_characters`, `success`, `reward_terms` (JSON), `failure_reason`,
    `oracle_length` (at the end); `privileged` (JSON) only on request. With `action="embedding"`
    `candidate` beside them: the act that was taken, -1 at reset.

    ## Arguments
    | parameter | default | |
    |---|---|---|
    | `observation` | `"message"` | see above |
    | `action` | `"text"` | `"text"`, `"act"` or `"embedding"` |
    | `split` | `"train"` | `"train"`, `"validation"`, `"test"`: no week in common; \
`"test_compositional"`: pairs of category and objection that training never has; \
`"test_primitive"`: a new category, and often a new objection; `"test_policy"`: a new rule that \
decides; `"test_persona"`, `"test_lexical"`: new persons, new words |
    | `task_id` | None | play one task, such as `"test-17"` |
    | `topic` | None | a category alone: `"laptops"`, `"phones"`, `"cameras"`, `"headphones"`, \
`"office chairs"`; `"coffee machines"` are in `test_primitive` only |
    | `difficulty` | None | 0 (easy) to 1 (hard); None takes tasks and personas as they come |
    | `persona` | None | name of a built-in one, mapping of traits (a pair is a range); None draws |
    | `style` | None | how it writes: a name or a mapping; None writes as the persona does |
    | `response_diversity` | 1.0 | 0 always words an act alike, 1 uses all fitting wordings |
    | `realism` | None | 0 templates, 0.5 whole turns from an index, or a fitted user's \
probabilities and words, above with `writer`; None: 0, or 0.5 with a fitted user |
    | `writer` | None | callable that words a turn (`convgym.language.writing`) |
    | `randomizer` | None | `convgym.randomization.DomainRandomizer` or its fields as a mapping |
    | `user` | None | path of a user fitted to logs (`convgym.calibration.calibrate`, or \
`convgym.data.fit_user`); or a language model that plays the buyer, in text mode: a \
`ChatModel`, `{"kind": "endpoint", "url": ..., "model": ...}` or `{"kind": "local", "model": ...}` |
    | `phrases` | None | the buyer's wordings: `"train"` or `"held_out"`; None takes those of the \
split |
    | `reranker` | None | True, or an object with `propose(text)`: a second look at unread replies |
    | `reward` | `"success"` | see above |
    | `discount` | 1.0 | γ of the milestones' shaping; the learner's |
    | `max_turns` | 50 | agent turns, 2 to 200 |
    | `privileged` | False | put the hidden goal into `info` |
    | `render_mode` | None | `"ansi"` or `"human"` |
    | `messages` | 4 | messages in an embedding, 1 to 64 |
    | `encoder` | `"hashed"` | what makes vectors of texts: `"hashed"`, `"hashed:512"` of 512 \
numbers, or an `Encoder` (`convgym.language.encoders`) |

    `reset(options=)` takes `task_id`, `user_seed` and `wording_seed`, to replay one task with
    other buyers or one buyer in other words, and `split`, `topic`, `difficulty`, `persona`
    and `style` for this episode. A randomizer's curriculum follows the agent steps of this
    environment.

    ## Vectorized environment
    `gym.make_vec(...)`: as the synchronous one, and the words of all rows are asked of a writer at
    once. `"async"` is right too: text survives its shared memory.

    ## Version History
    * v0: first version; the embedding modes, which came later, move nothing in the others.
    """

    def make_domain(self) -> Domain:
        """The desk."""
        return SalesDesk()

    def make_role(self) -> tuple[Describe, Read]:
        """The buyer as it is described to a model, and the reading of its words."""
        return role.describe, role.read
