"""Any environment of ConvGym, paid by a reward object of one's own."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym

from convgym.conversation import Conversation
from convgym.errors import InvalidConfiguration
from convgym.rewards.outcome import Outcome, Reward, check_reward, is_number, terms_json
from convgym.rewards.transcript import Transcript


class ConversationReward(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Pays `reward` instead of the environment's own reward.

    ## Rewards
    The score of the whole conversation, once, in the step that terminates it; nothing in a step
    that truncates it, because learners bootstrap there and what was paid would count twice.
    With `potential`, every step adds γ Φ(s′) − Φ(s), Φ being the potential's score so far minus
    its score at reset, and 0 at termination: over a terminated episode the discounted sum of
    these terms is exactly 0, so they guide an agent without paying it (Ng et al., 1999). At
    truncation the term stays, as learners bootstrap from there.
    A reward that does not see success pays agents that solve nothing; see `Reward.sees_success`.

    ## Information
    The environment's keys, at reset and every step, `success` as the environment reports it.
    `reward_terms` (JSON) always holds `success`; with a potential, `shaping`, what it added; in
    the last step `score`, the reward's value, `paid`, which is 0 where truncated, and the
    reward's breakdown by name.

    ## Arguments
    | parameter | default | |
    |---|---|---|
    | `env` | | a registered id's environment, wrapped or not, in text or act mode |
    | `reward` | | a reward object |
    | `potential` | None | a reward object as Φ; it is called in every step |
    | `discount` | 1.0 | γ of the shaping, in (0, 1]; the learner's |

    `outcome` and `conversation` are those of the newest step. In act mode the agent's words are
    the environment's wording of each act. A spec with this wrapper rebuilds within a process;
    as JSON it does not, because a reward is an object.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        reward: Reward,
        *,
        potential: Reward | None = None,
        discount: float = 1.0,
    ) -> None:
        check_reward(reward)
        if potential is not None:
            check_reward(potential)
        if not (is_number(discount) and 0.0 < discount <= 1.0):
            raise InvalidConfiguration(f"discount={discount!r} is not a number in (0, 1]; give one")
        gym.utils.RecordConstructorArgs.__init__(
            self, _disable_deepcopy=True, reward=reward, potential=potential, discount=discount
        )
        gym.Wrapper.__init__(self, env)
        self._transcript = Transcript(env)
        self._reward, self._potential, self._discount = reward, potential, float(discount)
        self._outcome: Outcome | None = None
        self._phi_at_reset = self._phi = 0.0

    @property
    def outcome(self) -> Outcome:
        """What the newest step left."""
        if self._outcome is None:
            raise gym.error.ResetNeeded("an outcome is an episode's; call reset first")
        return self._outcome

    @property
    def conversation(self) -> Conversation:
        """What was said in the running episode, policy and tools first."""
        return self.outcome.conversation

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._transcript.begin(info)
        self._outcome = outcome = Outcome.of_step(self._transcript.conversation, info)
        self._phi = 0.0
        self._phi_at_reset = self._potential(outcome).value if self._potential else 0.0
        terms = {"success": 0.0, "shaping": 0.0} if self._potential else {"success": 0.0}
        return observation, {**info, "reward_terms": terms_json(terms)}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """One agent turn, paid by the reward."""
        self._transcript.before(action)
        observation, _, terminated, truncated, info = self.env.step(action)
        self._transcript.after(info)
        outcome = Outcome.of_step(self._transcript.conversation, info, terminated, truncated)
        self._outcome = outcome
        paid, terms = self._pay(outcome)
        info = {**info, "reward_terms": terms_json(terms)}
        return observation, paid, terminated, truncated, info

    def _pay(self, outcome: Outcome) -> tuple[float, dict[str, float]]:
        terms: dict[str, float] = {}
        paid = shaping = 0.0
        if outcome.ended:
            score = self._reward(outcome)
            paid = 0.0 if outcome.truncated else score.value
            terms = {**score.breakdown, "score": score.value, "paid": paid}
        if self._potential:
            over = outcome.ended and not outcome.truncated
            phi = 0.0 if over else self._potential(outcome).value - self._phi_at_reset
            terms["shaping"] = shaping = self._discount * phi - self._phi
            self._phi = phi
        return paid + shaping, {"success": float(outcome.success), **terms}
