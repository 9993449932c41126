"""Hostile agents and customers in an environment of any form, and what they hold it to.

    Form ─► player_of ─► play(rng, steps) ─► Tally

A player draws an action and says whether it is to be taken or refused; `fuzz_environments.py` tells
what the documentation promises of each.
"""

from __future__ import annotations

import json
import math
import random
import time
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import gymnasium as gym
import numpy as np
from fuzzed_forms import GOOD_OPTIONS, NEEDED, ROWS, Form
from fuzzing import Hung, Tally, in_time, own_frames, raised
from hostile import Hostile

from convgym.envs.autoreset import DISABLED, AutoresetMode, gymnasium_mode
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.episode_setup import OPTIONS
from convgym.envs.registration import VECTOR_ENVIRONMENTS
from convgym.envs.rows import row_of
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.multi_agent import AGENT, USER, OneSide, env, parallel_env
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

SLOW = 10.0
"""Seconds of the processor that no step may take."""
FIRST = 300.0
"""The same before anything is compiled."""


# -- players ---------------------------------------------------------------------------------------


class Player:
    """An environment with somebody hostile in it; `turn` is one thing that it does."""

    rows = 1

    def __init__(self, form: Form) -> None:
        self.form = form
        self.hostile = Hostile(random.Random(0))
        self.tally = Tally()
        self.over, self.keys, self.tools = True, (), {}
        self.warm = False
        self.make({**form.keywords, **NEEDED.get(form.environment_id, {})})

    # what a kind of environment says

    def make(self, keywords: dict[str, Any]) -> None:
        """The environment itself."""
        raise NotImplementedError

    def begin(self, seed: Any, options: Any) -> None:
        """Reset; sets `over`."""
        raise NotImplementedError

    def action(self) -> tuple[Any, bool]:
        """An action, and whether it is to be taken; else it is to be refused."""
        raise NotImplementedError

    def act(self, action: Any) -> None:
        """Step, and check what comes back; sets `over`."""
        raise NotImplementedError

    def standing(self) -> Any:
        """What a refused action must leave as it is."""
        raise NotImplementedError

    # what all do

    def play(self, rng: random.Random, steps: int) -> Tally:
        """A stretch of steps, from a reset on."""
        self.hostile, self.tally, done = Hostile(rng), Tally(), 0
        self.over = True
        while done < steps:
            if self.over or rng.random() < 0.02:
                self.reset()
            if not self.over:
                self.step()
            done += self.rows
        self.tally.done = done
        self.warm = True  # what was compiled or read once is not a slow step
        return self.tally

    def reset(self) -> None:
        """A reset that may be refused, and then one that is not."""
        rng, hostile = self.hostile.rng, self.hostile
        if rng.random() < 0.15:
            seed, options = hostile.seed(), hostile.options(OPTIONS, GOOD_OPTIONS)
            refusals = InvalidConfiguration, gym.error.Error
            if self.attempt(lambda: self.begin(seed, options), refusals, (seed, options)):
                self.tally.counts["resets with odd options"] += 1
                return
            self.tally.counts["resets refused"] += 1
        seed = rng.randrange(2**31)
        if not self.attempt(lambda: self.begin(seed, None), (), (seed, None)):
            self.over = True

    def step(self) -> None:
        """One action, taken or refused."""
        action, fits = self.action()
        if fits:
            if self.attempt(lambda: self.act(action), (), action):
                self.tally.counts["steps taken"] += self.rows
            else:
                self.over = True
            return
        before = self.standing()
        if self.attempt(lambda: self.act(action), (InvalidAction,), action):
            self.wrong("an action outside the space is taken", action)
        elif self.standing() != before:
            self.wrong("a refused action has changed something", action)
            self.over = True
        else:
            self.tally.counts["actions refused"] += self.rows

    def wrong(self, sentence: str, given: Any) -> None:
        """Note a broken promise."""
        self.tally.fault(f"{self.form.kind}: {sentence}", f"{self.form}: {given!r:.200}")

    def attempt(
        self, do: Callable[[], None], allowed: tuple[type[Exception], ...], given: Any
    ) -> bool:
        """Whether it is done; False where it is refused as documented, or is a fault."""
        began = time.process_time()
        try:
            with in_time(SLOW if self.warm else FIRST), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                do()
        except allowed:
            return False
        except AssertionError as error:
            self.wrong(str(error)[:200], given)
            return False
        except (Exception, Hung) as error:
            self.tally.fault(raised(error), f"{self.form}: {given!r:.200}")
            self.over = True
            return False
        finally:
            if self.warm:
                self.tally.took(time.process_time() - began, str(self.form))
        return True

    # what the drivers below share

    def seen(self, observation: Any, space: Any) -> None:
        """Now and then hold an observation against its space."""
        if self.hostile.rng.random() < 0.1:
            assert observation in space, "an observation is outside its space"

    def told(self, reward: float, info: Mapping[str, Any]) -> None:
        """Rewards are finite, infos have one set of keys."""
        assert math.isfinite(reward), f"the reward is {reward}"
        if self.hostile.rng.random() < 0.1:
            keys = tuple(info)
            self.keys = self.keys or keys
            assert keys == self.keys, f"info has other keys: {set(keys) ^ set(self.keys)}"

    def odd(self, space: Any, rows: int | None = None) -> Any:
        """Something that is not in an action space."""
        while True:
            found = self.hostile.junk()
            if self.hostile.rng.random() < 0.2:
                found = [found] * (rows or 3)
            if rows is None and isinstance(space, gym.spaces.Text) and isinstance(found, str):
                continue
            waits = found is None and self.form.kind == "parallel"  # whoever sends nothing waits
            if not (waits or _fits(found, space, rows)):
                return found


def _fits(action: Any, space: Any, rows: int | None) -> bool:
    """Whether the documentation takes this action: what is in the space, and what means it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(space, gym.spaces.Text):
            texts = action if isinstance(action, list | tuple) else ()
            return rows is not None and len(texts) == rows and all(
                isinstance(text, str) for text in texts
            )
        try:
            array = np.asarray(action)
        except (TypeError, ValueError):
            return False
        shape = () if rows is None else (rows,)
        if isinstance(space, gym.spaces.Box):  # the vector of a reply: any finite numbers
            right = array.shape == (*shape, space.shape[-1]) and array.dtype.kind in "fiu"
            return bool(right and np.isfinite(array).all())
        if isinstance(space, gym.spaces.MultiDiscrete) and rows is None:
            right = array.shape == space.shape and array.dtype.kind in "iu"
            return bool(right and (array >= 0).all() and (array < space.nvec).all())
        if rows is None:
            try:
                return action in space
            except OverflowError:  # gymnasium 1.0, of a number that is none of C's
                return False
        if array.shape == shape and array.dtype.kind == "b":
            return True  # gymnasium's Discrete takes True for 1, rows of integers do not
        whole = array.shape == shape and array.dtype.kind in "iu"
        return bool(whole and (array >= 0).all() and (array < space.n).all())


def tools_in(prompt: str) -> dict[str, list[str]]:
    """Arguments' names by tool, of the schemas behind a system prompt's policy."""
    listed = json.loads(prompt.rpartition("Tools:\n")[2])
    return {
        tool["function"]["name"]: list(tool["function"]["parameters"].get("properties", {}))
        for tool in listed
    }


class Single(Player):
    """One conversation by `gym.make`."""

    def make(self, keywords: dict[str, Any]) -> None:
        """As a learner makes it."""
        self.env = gym.make(self.form.environment_id, disable_env_checker=True, **keywords)
        base: Any = self.env.unwrapped
        self.bare = base
        self.is_desk = isinstance(base, ConversationEnv)
        self.space = self.env.action_space
        self.agent: Any = None
        if self.is_desk and keywords.get("observation") == "dict":
            name = keywords.get("folder") or base.domain.domain
            made = ladder(name)["planner"](0.1)
            spoken = isinstance(self.space, gym.spaces.Text)
            self.agent = RenderedPolicy(made, domain=name) if spoken else made
            if self.form.kind == "wrapped" or isinstance(self.space, gym.spaces.Box):
                self.agent = None  # it reads values, and these are handles or vectors

    def begin(self, seed: Any, options: Any) -> None:
        """Reset."""
        self.observation, self.info = self.env.reset(seed=seed, options=options)
        self.over, self.tools = False, tools_in(self.bare.system_prompt)
        if self.agent is not None:
            self.agent.reset(int(self.info["turn"]))
        self.seen(self.observation, self.env.observation_space)
        self.told(0.0, self.info)

    def action(self) -> tuple[Any, bool]:
        """Text of any kind; acts legal or not; vectors near a reply or anywhere."""
        rng, space = self.hostile.rng, self.space
        if rng.random() < 0.05:
            return self.odd(space), False
        if isinstance(space, gym.spaces.Text):
            return self.hostile.text(self.good, self.tools), True
        mask = np.asarray(self.info["action_mask"])
        if isinstance(space, gym.spaces.Box):
            return vector(rng, self.bare.candidate_vectors, mask), True
        if self.agent is not None and rng.random() < 0.4:
            return int(self.agent.predict(self.observation, action_masks=mask)[0]), True
        return some_act(rng, mask), True

    def good(self) -> str:
        """What a scripted policy would say, or one of the acts in words."""
        rng = self.hostile.rng
        if self.agent is not None and rng.random() < 0.7:
            mask = self.info["action_mask"]
            said: str = self.agent.predict(self.observation, action_masks=mask)[0]
            return said
        if self.is_desk and rng.random() < 0.7:
            actions, belief = self.bare.domain.actions, self.bare._episode.belief
            legal = np.flatnonzero(actions.mask(np.frombuffer(belief, np.uint8)))
            words: str = self.bare.in_words(int(rng.choice(legal)))[1]
            return words
        return str(rng.choice(self.space.utterances))

    def act(self, action: Any) -> None:
        """Step once; with the episode over, once more."""
        act = isinstance(self.space, gym.spaces.Discrete) and action in self.space
        illegal = act and not self.info["action_mask"][int(action)]
        errors = int(self.info["errors"])
        answer = self.env.step(action)
        self.observation, reward, terminated, truncated, self.info = answer
        assert type(terminated) is bool and type(truncated) is bool, "a flag is no bool"
        assert not (terminated and truncated), "both flags are set"
        self.over = terminated or truncated
        self.seen(self.observation, self.env.observation_space)
        self.told(float(reward), self.info)
        if illegal:
            self.tally.counts["illegal acts, each an error in info"] += 1
            assert self.info["errors"] == errors + 1, "an illegal act is no error in info"
            assert self.over or self.info["errors"] < 5, "five errors do not end the episode"
        if self.over:
            try:
                self.env.step(action)
            except gym.error.ResetNeeded:
                return
            raise AssertionError("a step after the end is taken")

    def standing(self) -> Any:
        """What was said, and where the turn is."""
        base = self.bare
        if not self.is_desk:
            return base._episode.turn
        return base._episode.turn, base.said(), base.action_masks().tobytes()


def some_act(rng: random.Random, mask: Any) -> Any:
    """An act, as likely legal as not, as a number of any kind."""
    among = np.flatnonzero(mask) if rng.random() < 0.6 else np.arange(len(mask))
    return rng.choice((int, np.int64, np.int16, np.uint16))(rng.choice(among.tolist()))


def vector(rng: random.Random, candidates: Any, mask: Any) -> Any:
    """The vector of a reply, one near it, or any numbers; of any type of number."""
    kind = rng.random()
    near = candidates[rng.choice(np.flatnonzero(mask).tolist())]
    if kind < 0.5:
        return near
    noise = np.random.default_rng(rng.randrange(2**31)).normal(size=near.shape)
    scale = rng.choice((0.01, 1.0, 1e6, 1e-30, 1e300))
    made = noise * scale if kind < 0.9 else np.zeros(near.shape)
    return made.astype(rng.choice((np.float64, np.float64, np.int64))) if scale < 1e18 else made


class Vector(Player):
    """Several conversations by `gym.make_vec`."""

    rows = ROWS

    def make(self, keywords: dict[str, Any]) -> None:
        """As a learner makes it; gymnasium's own vector environment takes its mode elsewhere."""
        mode = keywords.pop("autoreset_mode")
        self.by_hand = mode == DISABLED
        one = self.form.environment_id
        given: dict[str, Any] = {"autoreset_mode": gymnasium_mode(mode)}
        if one not in VECTOR_ENVIRONMENTS:
            own = given if AutoresetMode is not None else {}
            given = {"vector_kwargs": own, "disable_env_checker": True}
        self.envs = gym.make_vec(one, ROWS, **given, **keywords)
        self.space = self.envs.single_action_space
        self.agents: list[Any] = []
        self.is_desk = one in VECTOR_ENVIRONMENTS
        if self.is_desk and keywords["observation"] == "dict" and keywords["action"] == "text":
            name = keywords.get("folder") or self.envs.get_attr("domain")[0].domain
            self.agents = [
                RenderedPolicy(ladder(name)["planner"](0.1), domain=name) for _ in range(ROWS)
            ]

    def begin(self, seed: Any, options: Any) -> None:
        """Reset all rows."""
        try:
            self.observation, self.info = self.envs.reset(seed=seed, options=options)
        except (ValueError, TypeError, AssertionError) as error:
            # gymnasium's own vector environment refuses in its own words, before it asks ours.
            if self.is_desk or own_frames(error):
                raise
            raise gym.error.Error(str(error)) from error
        self.over, self.ended = False, np.zeros(ROWS, dtype=bool)
        self.tools = tools_in(self.envs.get_attr("system_prompt")[0])
        for row, agent in enumerate(self.agents):
            agent.reset(row)
        self.seen(self.observation, self.envs.observation_space)

    def action(self) -> tuple[Any, bool]:
        """As in one environment, row by row."""
        rng, space = self.hostile.rng, self.space
        if rng.random() < 0.05 and self.is_desk:
            return self.odd(space, ROWS), False
        if isinstance(space, gym.spaces.Text):
            texts = [self.hostile.text(partial(self.good, row), self.tools) for row in range(ROWS)]
            return tuple(texts) if rng.random() < 0.5 else texts, True
        masks = np.array(self.envs.call("action_masks"))
        if isinstance(space, gym.spaces.Box):
            candidates = self.envs.get_attr("candidate_vectors")[0]
            rows = [vector(rng, candidates, mask).astype(np.float64) for mask in masks]
            return np.array(rows), True
        return np.array([int(some_act(rng, mask)) for mask in masks]), True

    def good(self, row: int) -> str:
        """What the planner would say, or one of the candidates."""
        rng = self.hostile.rng
        if self.agents and rng.random() < 0.7:
            said: str = self.agents[row].predict(row_of(self.observation, row))[0]
            return said
        if self.is_desk and rng.random() < 0.7:
            return str(rng.choice(self.envs.get_attr("candidates")[0]))
        return str(rng.choice(self.space.utterances))

    def act(self, action: Any) -> None:
        """Step all rows; where nothing resets them, those that are over."""
        answer = self.envs.step(action)
        self.observation, rewards, terminated, truncated, self.info = answer
        assert not (terminated & truncated).any(), "both flags are set"
        assert np.isfinite(rewards).all(), "a reward is not finite"
        self.seen(self.observation, self.envs.observation_space)
        if self.hostile.rng.random() < 0.1:
            dict(self.info)  # makes what is made late
        ended = terminated | truncated
        if self.by_hand and ended.any():
            self.observation, self.info = self.envs.reset(options={"reset_mask": ended})

    def standing(self) -> Any:
        """Masks of all rows."""
        return np.array(self.envs.call("action_masks")).tobytes()


class TwoSided(Player):
    """Both speakers, as AEC."""

    def make(self, keywords: dict[str, Any]) -> None:
        """As PettingZoo's registry makes it."""
        self.env = env(self.form.environment_id, **keywords)
        self.aec = self.env

    @property
    def floor(self) -> str:
        """Who acts."""
        side: str = self.aec.agent_selection
        return side

    def begin(self, seed: Any, options: Any) -> None:
        """Reset."""
        self.env.reset(seed=seed, options=options)
        self.over = False
        inside = self.aec.conversation
        self.tools = {
            AGENT: tools_in(inside.system_prompt),
            USER: tools_in(f"Tools:\n{self.aec.codec.side.tools or '[]'}"),
        }
        self.look()

    def look(self) -> None:
        """Both observations."""
        for side in (AGENT, USER):
            self.seen(self.env.observe(side), self.env.observation_space(side))

    def action(self) -> tuple[Any, bool]:
        """Of whoever has the floor."""
        side, rng = self.floor, self.hostile.rng
        space = self.aec.action_space(side)
        if rng.random() < 0.05:
            return self.odd(space), False
        if isinstance(space, gym.spaces.Text):
            return self.hostile.text(lambda: self.good(side), self.tools[side]), True
        if side == AGENT:
            return some_act(rng, np.asarray(self.aec.infos[AGENT]["action_mask"])), True
        if rng.random() < 0.4:
            return self.aec.own_action(), True
        width, most = len(space.nvec), int(space.nvec[0])
        numbers = [rng.randrange(most) if rng.random() < 0.3 else 0 for _ in range(width)]
        made = np.array(numbers, dtype=rng.choice((np.int64, np.uint8, np.int16)))
        return made if rng.random() < 0.5 else tuple(made), True

    def good(self, side: str) -> str:
        """What the simulated user would say, or one of the agent's acts in words."""
        rng, inside = self.hostile.rng, self.aec.conversation
        if side == USER:
            return str(self.aec.own_action())
        actions, belief = inside.domain.actions, inside.episode.belief
        legal = np.flatnonzero(actions.mask(np.frombuffer(belief, np.uint8)))
        words: str = inside.in_words(int(rng.choice(legal)))[1]
        return words

    def act(self, action: Any) -> None:
        """Step."""
        side = self.floor
        self.env.step(action)
        self.check(side, dict(self.env.rewards), self.env.infos)

    def check(self, side: str, rewards: Mapping[str, float], infos: Mapping[str, Any]) -> None:
        """What both get."""
        for reward in rewards.values():
            assert math.isfinite(reward), f"the reward is {reward}"
        self.told(0.0, infos[USER])
        self.over = any(self.aec.terminations.values()) or any(self.aec.truncations.values())
        self.look()
        if self.hostile.rng.random() < 0.1:
            self.aec.state()

    def standing(self) -> Any:
        """Who has the floor, and what was said."""
        return self.floor, self.aec.conversation.episode.turn, self.aec.conversation.lines()


class Parallel(TwoSided):
    """Both speakers at once."""

    def make(self, keywords: dict[str, Any]) -> None:
        """As PettingZoo's registry makes it."""
        self.env = parallel_env(self.form.environment_id, **keywords)
        self.aec = self.env.aec

    def look(self) -> None:
        """Both observations came with the step."""

    def act(self, action: Any) -> None:
        """Whoever has the floor is heard; the other one sends anything."""
        side = self.floor
        other = USER if side == AGENT else AGENT
        actions = {side: action, other: self.hostile.junk()}
        seen, rewards, _, _, infos = self.env.step(actions)
        for one, view in seen.items():
            self.seen(view, self.env.observation_space(one))
        self.check(side, rewards, infos)


class OneSided(TwoSided):
    """One speaker against the simulated other."""

    def make(self, keywords: dict[str, Any]) -> None:
        """The agent's side."""
        self.aec = env(self.form.environment_id, **keywords)
        self.env = OneSide(self.aec)

    def look(self) -> None:
        """What is seen came with the step."""

    def act(self, action: Any) -> None:
        """Step, and let the user answer."""
        observation, reward, *_ = self.env.step(action)
        self.seen(observation, self.env.observation_space)
        self.check(AGENT, {AGENT: reward}, self.aec.infos)


PLAYERS: dict[str, type[Player]] = {
    "single": Single, "wrapped": Single, "vector": Vector, "aec": TwoSided, "parallel": Parallel,
    "one side": OneSided,
}  # fmt: skip


@cache
def player_of(form: Form) -> Player:
    """Made once in a process, so that what a form leaves behind shows."""
    return PLAYERS[form.kind](form)
