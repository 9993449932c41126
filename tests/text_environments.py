"""Small Gymnasium environments of texts, made as strangers make them."""

import gymnasium as gym
from gymnasium import spaces


class Echo(gym.Env):
    """Says how long the reply was, `turns` times; seeded words differ, and so do lengths.

    The reward is 1 for a reply of an even number of characters.
    """

    WORDS = ("yes", "no", "order", "where", "thank you", "hm", "I have waited for a week")

    def __init__(self, turns=3, mixed=False):
        self.observation_space = spaces.Text(512)
        self.action_space = spaces.Text(256)
        self.turns, self.mixed = turns, mixed

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = 0
        self.last = int(self.np_random.integers(1, self.turns + 1)) if self.mixed else self.turns
        return self.say("Hello"), {"task_id": f"echo-{seed}"}

    def say(self, start):
        words = self.np_random.choice(self.WORDS, size=int(self.np_random.integers(1, 5)))
        return f"{start} {' '.join(words)}"

    def step(self, action):
        self.turn += 1
        done = self.turn >= self.last
        answer = self.say(f"{len(action)} letters")
        even = len(action) % 2 == 0
        return answer, float(even), done, False, {"success": done and even}


class Transcript(Echo):
    """Shows all that was said so far."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.page = f"User: {observation}"
        return self.page, info

    def step(self, action):
        observation, *rest = super().step(action)
        self.page += f"\nAgent: {action}\nUser: {observation}"
        return self.page, *rest


class Summary(Echo):
    """Shows a page that is written anew at every turn."""

    def step(self, action):
        observation, *rest = super().step(action)
        return f"Turn {self.turn}. So far {len(action)} letters. {observation}", *rest


class Messages(Echo):
    """Shows the whole context as messages, and forgets all but the last two of them at turn 2."""

    def __init__(self, turns=4, forgets=True, mixed=False):
        super().__init__(turns, mixed)
        one = spaces.Dict({"role": spaces.Text(16), "content": spaces.Text(512)})
        self.observation_space = spaces.Sequence(one)
        self.forgets = forgets

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.context = [{"role": "user", "content": observation}]
        return tuple(self.context), info

    def step(self, action):
        observation, *rest = super().step(action)
        self.context += [
            {"role": "assistant", "content": action},
            {"role": "user", "content": observation},
        ]
        if self.forgets and self.turn == 2:
            self.context = self.context[-1:]
        return tuple(self.context), *rest


class Crashing(Echo):
    """Raises at the second step of every episode whose seed is divisible by three."""

    def reset(self, *, seed=None, options=None):
        self.bad = seed % 3 == 0
        if seed % 7 == 6:
            raise OSError("no customers today")
        return super().reset(seed=seed)

    def step(self, action):
        if self.bad and self.turn == 1:
            raise RuntimeError("the desk is on fire")
        return super().step(action)


class Parts(Echo):
    """A Dict of tool results and words, sometimes of one of them only."""

    system_prompt = "You are a desk."

    def __init__(self):
        super().__init__(3)
        text = spaces.Text(512, min_length=0)
        self.observation_space = spaces.Dict({"message": text, "tool_results": text})

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return {"message": observation, "tool_results": ""}, info

    def step(self, action):
        observation, *rest = super().step(action)
        results = "" if self.turn == 3 else "found 12"
        said = "" if self.turn in (1, 3) else observation
        return {"message": said, "tool_results": results}, *rest
