"""Our rollouts in trl's GRPOTrainer: whole conversations, token for token, with their mask.

    trl                                             here
    prompts ["seed 17", …] ──────────────────────►  seeds 17, …
                                                    RolloutEngine.collect(seeds, 1)
    prompt_ids      up to the first sampled token ◄─┘
    completion_ids  all that follows
    env_mask        1 on sampled tokens
    logprobs        of the sampler, 0 elsewhere
    episode_return  ─► episode_return(…), the reward function

    trainer = GRPOTrainer(
        model=model, processing_class=tokenizer, train_dataset=seed_prompts(1000),
        rollout_func=RolloutFunction("ConvGym/CustomerService-v0"), reward_funcs=episode_return, …
    )

Written for trl 1.16, which calls its `rollout_func` experimental; a prompt comes as often as it is
to be answered, whatever its documentation says. A rollout that failed has no
return, so that trl leaves it out of the baseline. trl takes one row for a prompt, so conversations
whose context was edited on the way are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.chat_format import ChatFormat
from trainers.llm.draws import draw_key
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.rollouts import Rollout
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment

_SEED = "seed "


def seed_prompts(number: int, first: int = 1_000_000) -> Any:
    """A `datasets.Dataset` of prompts that stand for seeds."""
    try:
        from datasets import Dataset
    except ImportError as error:
        raise MissingExtra("datasets", "trl") from error
    return Dataset.from_list([{"prompt": f"{_SEED}{first + k}"} for k in range(number)])


def episode_return(
    completions: Sequence[Any], episode_return: Sequence[float | None], **_: Any
) -> list[float | None]:
    """The reward function: what each conversation earned; None of one that failed."""
    return list(episode_return)


class RolloutFunction:
    """trl's `rollout_func` over an environment of texts; `rollouts` are those of the last call.

    The trainer's own model samples, with its weights of that moment and one key-value cache.
    """

    def __init__(
        self,
        environment: TextEnvironment | str | Callable[..., Any],
        sampling: Sampling | None = None,
        *,
        slots: int = 64,
        max_turns: int | None = None,
        seed: int = 0,
    ) -> None:
        self.environment, self.sampling = environment, sampling or Sampling()
        self.slots, self.max_turns, self.seed = slots, max_turns, seed
        self.rollouts: list[Rollout] = []
        self._engine: RolloutEngine | None = None
        self._model: Any = None

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Play the seed of each prompt once; if it comes again, as another member of its group."""
        temperature = trainer.args.temperature
        if temperature != self.sampling.temperature:
            raise InvalidConfiguration(
                f"trl scores at temperature {temperature} and the rollouts are sampled at "
                f"{self.sampling.temperature}; give both the same"
            )
        model = trainer.accelerator.unwrap_model(trainer.model)
        if self._engine is None or model is not self._model:
            self._model, self._engine = model, self._made(model, trainer.processing_class)
        training = trainer.model.training
        process = trainer.accelerator.process_index  # a group may be spread over processes
        rng_seed = draw_key(self.seed, trainer.state.global_step, int(training), process)
        self.rollouts = self._engine.collect([_seed(prompt) for prompt in prompts], 1, rng_seed)
        model.train(training)
        return _columns(self.rollouts, self._engine.chat_format.end)

    def _made(self, model: Any, tokenizer: Any) -> RolloutEngine:
        form = ChatFormat(tokenizer)
        return RolloutEngine(
            self.environment,
            model,
            form,
            self.sampling,
            slots=self.slots,
            max_turns=self.max_turns,
        )


def _seed(prompt: Any) -> int:
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    if not text.startswith(_SEED) or not text[len(_SEED) :].isdecimal():
        raise InvalidConfiguration(
            f"the prompt {text[:40]!r} stands for no seed; take the prompts of seed_prompts()"
        )
    return int(text[len(_SEED) :])


def _columns(rollouts: Sequence[Rollout], end: int) -> dict[str, list[Any]]:
    """A row for each rollout, failed ones with one token that nothing is learnt from."""
    found: dict[str, list[Any]] = {
        name: [] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask")
    }
    found["episode_return"] = [r.return_ if r.valid else None for r in rollouts]
    for rollout in rollouts:
        if len(rollout.segments) > 1:
            raise InvalidConfiguration(
                "trl takes one sequence for a conversation, and this environment edits what was "
                "said; train with PolicyOptimizer, or leave the context as it is"
            )
        tokens, log_probs, mask = [end], [0.0], [0]
        if rollout.valid:
            segment = rollout.segments[0]
            tokens = segment.tokens.tolist()
            log_probs = segment.log_probs.tolist()
            mask = segment.loss_mask.tolist()
        first = mask.index(1) if 1 in mask else 0
        found["prompt_ids"].append(tokens[:first] or [end])
        found["completion_ids"].append(tokens[first:])
        found["logprobs"].append(log_probs[first:])
        found["env_mask"].append(mask[first:])
    return found
