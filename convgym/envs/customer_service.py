"""`ConvGym/CustomerService-v0`: the support desk of an online shop."""

from __future__ import annotations

from copy import copy

from convgym.domains.catalogue import domain_called
from convgym.domains.customer_service.desk import CustomerServiceDesk
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.domain import Domain
from convgym.users.generative import Describe, Read


class CustomerServiceEnv(ConversationEnv):
    """A customer with a problem writes to a support desk; the agent answers.

    ## Description
    The customer comes with one to three requests out of ten: where an order is, to cancel it, to
    send it back, to exchange it, to have it delivered elsewhere, a refund that has not come, a
    claim under warranty, a charge in dispute, a subscription to end, an account that is locked.
    The agent has tools over a shop of 6,000 customers with their orders, subscriptions and
    charges, any of which may fail at first, and a policy document whose rules and numbers change
    from episode to episode: some requests must be granted, some refused for the right reason with
    what may be offered instead, some transferred. It must authenticate the customer, read the
    record before it decides, tell the terms, and obtain the customer's yes before it changes
    anything. The next request comes when the one before is settled; success needs all of them.
    The customer has a goal; knowledge that is sure,
    vague, wrong, or has to be looked up; questions of its own (what for? what does that mean? are
    you sure? what next?), which an explanation answers; limited patience; and doubts claims that
    the agent has not looked up. Eleven traits tilt each of its choices.

    ## Action Space
    `action="text"`: a reply of at most 4,096 characters, speech and tool calls mixed. A call
    is `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, a bare
    `{"name": ..., "arguments": ...}`, or `{"tool_calls": [...]}`; `<think>...</think>` is
    dropped. Calls run first, then the speech is heard, against what they have read; a transfer
    or an ending comes last. A reply of calls alone, or with mere pastime beside them ("let me
    check"), keeps the floor. At most four calls a reply.
    `action="act"`: `Discrete(125)`, one act of speech or one tool call, with a pointer where
    it needs one. Legal acts: `info["action_mask"]`, `action_masks()`. An illegal act is an
    error; five errors end the episode.
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
    | `features` | `Box(0, 255, (385,), float32)` | belief: what was seen, heard, told and written |
    | `embedding` | `Box(-1, 1, (1024,), float32)` | vectors of the newest `messages` |

    `embedding` holds the vectors that `encoder` gives the newest messages, the newest first, zeros
    where there are fewer. A message is what the customer said, what the tools of one step answered
    together, or the agent's reply: in text mode as it was sent, else the candidate of its act.
    `view` is a JSON of all that is in sight; the cells of `features` have names
    (`env.unwrapped.domain.layout`). The customer's words are made from what
    it does: up to `realism` 0.5 a growing share is found whole in an index instead of being put
    together; above, a growing share is worded by `writer`, whose words are used only if they keep
    what is done and every value.

    ## Starting State
    A task of `split`, a persona and a wording, each drawn from its own key; the customer has
    said its first words. `difficulty` moves the draw of tasks towards easier or harder ones, and
    the persona towards patience, accuracy and cooperation or away from them.

    ## Rewards
    `reward="success"`: 1 once, at the end, if the diff of the world is the goal's, all that
    had to be told was told, no obligation was broken, and refusals stood their ground; else 0.
    `"graded"`: at termination, a sum of evidence in [0, 1], 0 where an obligation was broken;
    nothing at truncation, where learners bootstrap.
    `"milestones"`: success plus `discount` Φ(s') − Φ(s), Φ the evidence so far, 0 at termination.

    ## Episode End
    Terminated: the customer leaves, content or not; a transfer; the agent hangs up; five
    errors. Truncated: `max_turns` agent turns; a writer that fails (`failure_reason` begins with
    `writer_failed`), or a model as customer that does (`user_failed`).

    ## Information
    The same keys at reset and every step: `task_id`, `split`, `turn`, `difficulty` (-1 where none
    is set), `wording` (template, retrieval, writer, fallback, model; empty where the customer said
    nothing), `user_acts` (JSON),
    `user_log_prob` (nats, of the customer's choices; for calibration, not for the agent, whom
    it can tell that a memory slipped, or that something has to be looked up), `tool_results`,
    `errors`, `violations`, `milestones` (0 until the end unless the reward is "milestones", which
    tells as much: progress shows which order is meant), `action_mask`, `cost_characters`,
    `success`, `reward_terms` (JSON), `failure_reason`, `oracle_length` (at the end);
    `privileged` (JSON) only on request. With `action="embedding"`
    `candidate` beside them: the act that was taken, -1 at reset.

    ## Arguments
    | parameter | default | |
    |---|---|---|
    | `observation` | `"message"` | see above |
    | `action` | `"text"` | `"text"`, `"act"` or `"embedding"` |
    | `split` | `"train"` | `"train"`, `"validation"`, `"test"`, which share no customer, and what \
training never meets: `"test_compositional"` (pairs of workflows), `"test_primitive"` (workflows), \
`"test_policy"` (rules), `"test_persona"` (stubborn, careless experts), `"test_lexical"` (words) |
    | `task_id` | None | play one task, such as `"test-17"` |
    | `topic` | None | what the first request is: `"status"`, `"cancel"`, `"return"`, `"address"`, \
`"exchange"`, `"refund"`, `"subscription"`, `"access"`, `"warranty"`, `"billing"` |
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
    | `phrases` | None | the customer's wordings: `"train"`, or `"held_out"` in `test_lexical`; a \
name fixes them |
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
    other customers or one customer in other words, and `split`, `topic`, `difficulty`, `persona`
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
        domain = copy(domain_called("customer-service"))
        assert isinstance(domain, CustomerServiceDesk)
        return domain

    def make_role(self) -> tuple[Describe, Read]:
        """The customer as it is described to a model, and the reading of its words."""
        from convgym.domains.customer_service import played

        return played.describe, played.read
