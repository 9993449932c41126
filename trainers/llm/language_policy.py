"""A language model as a policy: it answers observations, and travels as one file.

    observation ─► messages ─► tokens ─► sampler, which keeps what it has read ─► reply
                   as while learning     the model's own replies are never encoded again

    policy.zip    policy.json        how it replies
                  model.safetensors, config.json, tokenizer.json, …     a folder of transformers

A conversation is the policy's own, from `reset` to the next; `state` is handed through. Copies
share the weights and have conversations of their own, so that several threads can have one each.
Knows nothing of how it was trained.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.conversation_record import ConversationRecord
from trainers.llm.draws import draw_key
from trainers.llm.embedded.folder import embedded_folder
from trainers.llm.embedded.tuned import MODEL
from trainers.llm.language_model import LanguageModel
from trainers.llm.policy_file import about_policy, packed, unpacked
from trainers.llm.sampler import Request
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import Step, TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

_LONGEST = 1 << 20
"""Characters of a reply or of what is shown; more than any environment takes."""


class LanguagePolicy:
    """Replies of `model`, drawn by the seed of the conversation; the likeliest if deterministic.

    `system` stands first: a text, or None for the rules that a Dict observation shows, `prompt`
    where it shows none. A conversation that leaves no room for a reply is answered with silence.
    """

    name = "language model"
    speaks = True
    """It reads texts and replies in texts; command line and service make environments for it."""

    def __init__(
        self,
        model: LanguageModel,
        sampling: Sampling | None = None,
        *,
        system: str | None = None,
        prompt: str = "",
        origin: str = "",
    ) -> None:
        self.model, self.sampling = model, sampling or Sampling()
        self.system, self.prompt, self.origin = system, prompt, origin
        self._format = ChatFormat(model.tokenizer)
        self._file: Path | None = None
        self._sampler: TransformersSampler | None = None
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begin a conversation; the same seed gives the same replies to the same observations."""
        self._seed, self._reply = seed, ""
        self._page = _Page(self.prompt)
        self._reader = TextEnvironment(lambda: self._page, system=self.system)
        self._record = ConversationRecord(0, seed, 0, self.sampling.max_context)
        self._begun = self._full = False

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[str, Any]:
        """The reply to the newest observation.

        Raises InvalidConfiguration for observations that are no texts.
        """
        if self._begun and episode_start is not None and bool(np.any(episode_start)):
            self.reset(self._seed)
        step = self._read(observation)
        self._reply = "" if self._full else self._answer(step, deterministic)
        return self._reply, state

    def __copy__(self) -> LanguagePolicy:
        twin = object.__new__(LanguagePolicy)
        twin.__dict__.update(self.__dict__)
        twin._sampler = None
        twin.reset(self._seed)
        return twin

    def __reduce__(self) -> Any:
        if self._file is None:
            raise TypeError("a language model goes to other processes as a file; save and load it")
        return LanguagePolicy.load, (self._file,)

    # -- one reply ---------------------------------------------------------------------------------

    def _read(self, observation: Any) -> Step:
        """What is new to the model."""
        self._page.shown = observation
        if self._begun:
            return self._told(self._reader.step(self._reply))
        self._begun = True
        return self._told(Step(self._reader.reset(0), error=self._reader.error, rewritten=True))

    def _told(self, step: Step) -> Step:
        if step.error:
            kind = type(self._page.shown).__name__
            raise InvalidConfiguration(
                f"a language model reads texts, and this observation is a {kind}; make the "
                'environment with observation="dict" and action="text"'
            )
        return step

    def _answer(self, step: Step, deterministic: bool) -> str:
        form, record = self._format, self._record
        if step.rewritten:
            if record.turn:
                record.rewrite()
            tokens = form.opening(step.messages)
        else:
            tokens = form.continuation(step.messages)
        self._full = len(tokens) >= record.left or not record.read(tokens)
        if self._full:
            return ""
        sampling = self.sampling
        if deterministic and not sampling.greedy:
            sampling = Sampling(**{**sampling.to_dict(), "temperature": 0.0})
        key = draw_key(self._seed, record.turn)
        budget = min(sampling.max_tokens, record.left)
        if self._sampler is None:
            self._sampler = TransformersSampler(self.model.causal)
        if record.turn == 0:  # weights may have changed since the last conversation
            self._sampler.begin(sampling, form.end, 1)
        self._sampler.submit([Request(0, record.context, key, budget)])
        (reply,) = self._sampler.replies()
        record.sampled(reply.tokens, reply.log_probs)
        if reply.tokens[-1] != form.end:
            record.read([form.end])
        return form.decode(reply.tokens.tolist())

    # -- file --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, whole or not at all; the same policy gives the same bytes."""
        about = {
            "sampling": self.sampling.to_dict(), "system": self.system, "prompt": self.prompt,
            "origin": self.origin,
        }  # fmt: skip
        with packed(path, about) as folder, quietly():
            self.model.write(folder)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "cpu") -> LanguagePolicy:
        """What `save` wrote; raises InvalidConfiguration for anything else."""
        about = about_policy(path)
        with unpacked(path) as folder:
            _mend(folder, about["origin"])
            with quietly():
                model = LanguageModel.load(folder, device=device)
        found = cls(
            model, Sampling(**about["sampling"]),
            system=about["system"], prompt=about["prompt"], origin=about["origin"],
        )  # fmt: skip
        found._file = Path(path).absolute()
        return found


class _Page(gym.Env[Any, str]):
    """An environment that shows what it is given, so that it is read as any other's is."""

    action_space = spaces.Text(_LONGEST)
    observation_space = spaces.Text(_LONGEST)

    def __init__(self, prompt: str) -> None:
        self._prompt, self.shown = prompt, ""

    @property
    def system_prompt(self) -> str:
        """The rules on the page; else those of the environment that was learnt in."""
        shown: Any = self.shown
        if isinstance(shown, Mapping) and "policy" in shown and "tools" in shown:
            return f"{shown['policy']}\n\nTools:\n{shown['tools']}"
        return self._prompt

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:  # type: ignore[override]
        """What is shown first."""
        return self.shown, {}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What is shown now."""
        return self.shown, 0.0, False, False, {}


def _mend(folder: Path, origin: str) -> None:
    """Adapters of the embedded model find it where it is on this machine."""
    about = folder / "adapter_config.json"
    if origin == MODEL and about.is_file() and not (folder / "base").is_dir():
        config = json.loads(about.read_text(encoding="utf-8"))
        config["base_model_name_or_path"] = str(embedded_folder())
        about.write_text(json.dumps(config), encoding="utf-8")


@contextmanager
def quietly() -> Iterator[None]:
    """Without the bars that transformers draws for every file that it reads."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
