"""A causal language model of transformers as learners need it: how likely were these tokens?

    tokens      p0  p1  a2  a3  u4  a5          turns   −1 −1 0 0 −1 1
    hidden      h0  h1  h2  h3  h4  h5          the model's, one forward for all places
    head            ▲   ▲       ▲               only at the places before sampled tokens
    log_probs   0   0   ℓ2  ℓ3  0   ℓ5          ℓt = log π(token t | all that stands before it)

Rows are padded on the right, where a causal model cannot see it, so they need no attention mask.
Dropout is off, also while learning: the ratio of a policy to itself must be 1.
Knows nothing of environments or losses.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from convgym.errors import InvalidConfiguration, MissingExtra, told
from trainers.archive import new_folder
from trainers.llm.losses import entropy
from trainers.llm.rollouts import Rows
from trainers.llm.shared_prompts import Packed, pack

try:
    import torch
    from safetensors import SafetensorError
    from torch import Tensor, nn
    from torch.utils.checkpoint import checkpoint
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

DTYPES = ("float32", "bfloat16", "float16", "float64")
OF_MODELS = ("adapter_", "base", "generation_config", "model", "pytorch_model")
"""How files begin that an older model may have left, and that a newer one would be mixed up by."""
LOGITS_AT_ONCE = 2**25
"""Numbers in one piece of logits; 128 MiB in single precision."""


@dataclass(frozen=True, kw_only=True)
class LoRA:
    """Low-rank adapters W + (α / r) B A, B zero at the start (arXiv:2106.09685), through peft."""

    rank: int = 8
    """r."""
    alpha: int = 16
    """α."""
    dropout: float = 0.0
    """Of the adapters' inputs, for trainers that call the module itself; scores never drop."""
    targets: str | tuple[str, ...] = "all-linear"
    """Names of layers, or peft's "all-linear": every one but the head."""
    seed: int = 0
    """Of A."""

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0 or not 0 <= self.dropout < 1:
            raise InvalidConfiguration(
                f"rank={self.rank}, alpha={self.alpha}, dropout={self.dropout}; rank counts from "
                "1, alpha is above 0 and dropout is in [0, 1)"
            )


@dataclass(frozen=True, eq=False)
class Scored:
    """What a model makes of B rows of T tokens."""

    log_probs: Tensor  # (B, T) of each sampled token; 0 elsewhere
    entropies: Tensor | None = None  # (B, T) of what could have stood there; 0 elsewhere
    hidden: Tensor | None = None  # (B, T, D) of each place, that token included


class LanguageModel:
    """A model, its tokenizer, and what it was before it learned.

    `model` is a causal language model of transformers, or one that peft has wrapped; it is used as
    it is, not copied. `lora` puts adapters into it, and then only they learn.
    """

    def __init__(self, model: Any, tokenizer: Any, lora: LoRA | None = None) -> None:
        self.module: Any = model if lora is None else _adapted(model, lora)
        self.module.eval()
        self.tokenizer = tokenizer
        self.has_adapter = hasattr(self.module, "disable_adapter")
        self._reference: Any = None
        self._adapter: list[tuple[Tensor, Tensor]] = []
        """Of a frozen reference: an adapter's weights, and what they were."""
        self._scorer: Any = self.causal
        self._checked = False

    @classmethod
    def load(
        cls,
        path_or_name: str | os.PathLike[str],
        *,
        dtype: str = "float32",
        device: str | torch.device = "cpu",
        attention: str | None = None,
        lora: LoRA | None = None,
    ) -> LanguageModel:
        """What `save` wrote, or any model of a folder or of the hub.

        `attention` is transformers' name of an implementation ("sdpa", "flash_attention_2", …).
        Raises InvalidConfiguration for a dtype that there is not and for what cannot be read.
        """
        if dtype not in DTYPES:
            raise InvalidConfiguration(f"dtype={dtype!r}; it is one of {', '.join(DTYPES)}")
        try:
            from transformers import AutoModelForCausalLM
        except ImportError as error:
            raise MissingExtra("transformers", "llm") from error
        folder = Path(path_or_name)
        adapter = (folder / "adapter_config.json").is_file()
        base = _base_of(folder) if adapter else path_or_name
        options = {} if attention is None else {"attn_implementation": attention}
        try:
            tokenizer = load_tokenizer(path_or_name)
            model = AutoModelForCausalLM.from_pretrained(
                base, dtype=getattr(torch, dtype), **options
            )
            if adapter:
                model = _with_adapter(model, folder)
        except (OSError, ValueError, SafetensorError) as error:
            raise InvalidConfiguration(
                f"{path_or_name} cannot be read as a language model: {told(error)}"
            ) from error
        return cls(model.to(device), tokenizer, lora)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def causal(self) -> Any:
        """The model of transformers itself; adapters, if any, are in its layers."""
        return self.module.get_base_model() if self.has_adapter else self.module

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        found: torch.device = next(self.module.parameters()).device
        return found

    @property
    def dtype(self) -> torch.dtype:
        """Of its weights."""
        found: torch.dtype = self.causal.get_output_embeddings().weight.dtype
        return found

    @property
    def width(self) -> int:
        """Size of a hidden vector."""
        return int(self.causal.get_output_embeddings().weight.shape[1])

    def trainable(self) -> dict[str, nn.Parameter]:
        """What learns, by name, always in the same order."""
        return {n: p for n, p in self.module.named_parameters() if p.requires_grad}

    # -- scoring -----------------------------------------------------------------------------------

    def score(
        self,
        rows: Rows,
        temperature: float = 1.0,
        entropies: bool | Literal["detached"] = False,
        hidden: bool = False,
        packed: Packed | None = None,
    ) -> Scored:
        """Log-probabilities of sampled tokens under softmax(logits / temperature).

        `entropies` "detached" measures them without gradient. `packed` are the same rows with
        prompts shared, for models that have `shares_prompts`: it changes the cost alone. Rows may
        be anywhere; what comes back is on the model's device. Use `torch.no_grad` where no
        gradient is wanted.
        """
        rows = rows.to(self.device)
        where, place = rows.mask[:, 1:].nonzero(as_tuple=True)  # what stands at place predicts
        if packed is None:
            states = self._states(rows.tokens)
            chosen = states[where, place]
        else:
            packed = packed.to(self.device)
            flat = self._packed_states(packed)
            chosen = flat[packed.index[where, place]]
            states = flat[packed.index] if hidden else flat
        targets = rows.tokens[where, place + 1]
        found, spread = self._at_places(chosen, targets, temperature, entropies)
        full = found.new_zeros(rows.tokens.shape)
        at = (where, place + 1)
        return Scored(
            full.index_put(at, found),
            None if spread is None else full.index_put(at, spread),
            states if hidden else None,
        )

    def distributions(self, rows: Rows, temperature: float = 1.0) -> Tensor:
        """log softmax(logits / temperature) before each of the N sampled tokens, row by row.

        All of it at once, so for few places or small vocabularies.  # (N, V)
        """
        rows = rows.to(self.device)
        chosen = self._states(rows.tokens)[:, :-1][rows.mask[:, 1:]]
        return (self._logits(chosen) / temperature).log_softmax(-1)

    def _states(self, tokens: Tensor) -> Tensor:
        if not self._checked:
            self._check()
        states: Tensor = self._scorer.base_model(
            input_ids=tokens, use_cache=False
        ).last_hidden_state
        return states

    @cached_property
    def shares_prompts(self) -> bool:
        """Whether it takes rows packed behind one prompt: found out once, by trying.

        Not so with windows of attention, with kernels that take no mask, and where places are
        not told to the model.
        """
        config = self.causal.config.get_text_config()
        kinds = getattr(config, "layer_types", None)
        windows = getattr(config, "sliding_window", None) is not None
        if any(kind != "full_attention" for kind in kinds) if kinds else windows:
            return False
        if config._attn_implementation not in ("sdpa", "eager"):
            return False
        tokens = torch.tensor([[1, 2, 0, 1, 0, 2, 1], [1, 2, 0, 2, 1, 0, 0]])
        turns = torch.tensor([[-1, -1, -1, 0, 0, 0, 0], [-1, -1, -1, 0, 0, -1, -1]])
        there = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
        rows = Rows(tokens, there, turns, torch.zeros(2, 7), torch.arange(2))
        packed = pack(rows, [torch.arange(2)])
        elsewhere = replace(packed, places=torch.arange(packed.places.shape[1])[None])
        try:
            with torch.no_grad():
                plain = self._states(tokens.to(self.device))[there]
                right, wrong = (
                    float((self._packed_states(found)[found.index][there] - plain).abs().max())
                    for found in (packed.to(self.device), elsewhere.to(self.device))
                )
        except (TypeError, ValueError, RuntimeError):  # whatever a model says to what it cannot
            return False
        single = self.dtype in (torch.float32, torch.float64)
        close = not single or right <= 1e-4 * float(plain.abs().max())
        return close and right <= 0.2 * wrong

    def _packed_states(self, packed: Packed) -> Tensor:
        """Hidden vectors of packed rows, one sequence after the other.  # (K · L, D)"""
        dtype = self.dtype
        mask = torch.zeros((), dtype=dtype, device=self.device)
        mask = mask.masked_fill(~packed.visible(), torch.finfo(dtype).min)
        states: Tensor = self._scorer.base_model(
            input_ids=packed.tokens,
            position_ids=packed.places,
            attention_mask=mask,
            use_cache=False,
        ).last_hidden_state
        return states.flatten(0, 1)

    def _at_places(
        self, states: Tensor, targets: Tensor, temperature: float, entropies: bool | str
    ) -> tuple[Tensor, Tensor | None]:
        """(N, D), (N,) → (N,), (N,); logits of a piece are made again for its gradient."""
        size = max(1, LOGITS_AT_ONCE // self.causal.get_output_embeddings().weight.shape[0])

        def piece(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
            log_probs = (self._logits(states) / temperature).log_softmax(-1)
            spread = log_probs.new_zeros(len(targets))
            if entropies:
                spread = entropy(log_probs.detach() if entropies == "detached" else log_probs)
            return log_probs.gather(-1, targets[:, None])[:, 0], spread

        if len(states) <= size:
            found, spread = piece(states, targets)
            return found, spread if entropies else None
        parts = [
            checkpoint(piece, part, target, use_reentrant=False)
            if torch.is_grad_enabled()
            else piece(part, target)
            for part, target in zip(states.split(size), targets.split(size), strict=True)
        ]
        found, spread = (torch.cat(column) for column in zip(*parts, strict=True))
        return found, spread if entropies else None

    def _logits(self, states: Tensor) -> Tensor:
        """What the model's own forward makes of hidden states, in single precision at least."""
        config = self.causal.config.get_text_config()
        logits: Tensor = self._scorer.get_output_embeddings()(states)
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        if scale := getattr(config, "logit_scale", None):  # Cohere
            logits = logits * scale
        if scaling := getattr(config, "logits_scaling", None):  # Granite
            logits = logits / scaling
        if cap := getattr(config, "final_logit_softcapping", None):  # Gemma
            logits = cap * (logits / cap).tanh()
        return logits

    @torch.no_grad()
    def _check(self) -> None:
        """That nothing stands between hidden states and logits that `_logits` does not know."""
        self._checked = True
        tokens = torch.arange(3, device=self.device)[None]
        own = self._logits(self._states(tokens))
        theirs = self._scorer(input_ids=tokens, use_cache=False).logits.to(own.dtype)
        close = 1e-4 if self.dtype in (torch.float32, torch.float64) else 5e-2
        if not torch.allclose(own, theirs, atol=close * float(theirs.abs().max() + 1)):
            raise InvalidConfiguration(
                f"{type(self.causal).__name__} does more with hidden states than its head; it "
                "cannot be scored place by place. Take a model whose logits are head(hidden)"
            )

    # -- the reference -----------------------------------------------------------------------------

    def freeze_reference(self) -> None:
        """Keep what the model is now as its reference; of adapters, their weights alone."""
        if self.has_adapter:
            self._adapter = [
                (weights, weights.detach().clone()) for weights in self.trainable().values()
            ]
        else:
            self._reference = copy.deepcopy(self.causal).requires_grad_(False)

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Inside, the reference scores; of adapters that were never frozen, what is beneath them.

        Raises InvalidConfiguration where there are no adapters and none was frozen.
        """
        if self._adapter:
            learnt = [weights.data for weights, _ in self._adapter]
            try:
                for weights, kept in self._adapter:
                    weights.data = kept  # what was computed with the others still holds them
                yield
            finally:
                for (weights, _), own in zip(self._adapter, learnt, strict=True):
                    weights.data = own
            return
        if self.has_adapter:
            with self.module.disable_adapter():
                yield
            return
        if self._reference is None:
            raise InvalidConfiguration(
                "this model has no reference; call freeze_reference() before it learns, or train "
                "adapters with LoRA()"
            )
        self._scorer = self._reference
        try:
            yield
        finally:
            self._scorer = self.causal

    # -- files -------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write weights, adapters alone if there are any, and the tokenizer.

        The folder is written beside its place and then put there, so it is never half written;
        what else was in it stays. Adapters of a model that came from no folder bring it along.
        """
        with new_folder(folder, OF_MODELS) as written:
            self.write(written)

    def write(self, folder: Path) -> None:
        """The same files into a folder that is being written."""
        self.module.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        if self.has_adapter and not self.causal.name_or_path:
            self.causal.save_pretrained(folder / "base", state_dict=_beneath(self.causal))


def load_tokenizer(path_or_name: str | os.PathLike[str]) -> Any:
    """The tokenizer of a folder or of the hub, as it was saved.

    A tokenizer of no particular class would be made by AutoTokenizer into that of the model's
    architecture, which splits texts in its own way: other tokens than the model has learnt.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    about = Path(path_or_name) / "tokenizer_config.json"
    if about.is_file():
        kind = json.loads(about.read_text(encoding="utf-8")).get("tokenizer_class")
        if kind in ("TokenizersBackend", "PreTrainedTokenizerFast"):
            return PreTrainedTokenizerFast.from_pretrained(path_or_name)
    return AutoTokenizer.from_pretrained(path_or_name)


def _adapted(model: Any, lora: LoRA) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingExtra("peft", "llm") from error
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
        fan_in_fan_out=model.config.model_type == "gpt2",  # its layers are transposed
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(lora.seed)
        try:
            return get_peft_model(model, config)
        except ValueError as error:
            raise InvalidConfiguration(f"targets={lora.targets!r}: {told(error)}") from error


def _with_adapter(model: Any, folder: Path) -> Any:
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingExtra("peft", "llm") from error
    return PeftModel.from_pretrained(model, folder, is_trainable=True)


def _base_of(folder: Path) -> Path | str:
    """Where the model beneath saved adapters is."""
    if (folder / "base").is_dir():
        return folder / "base"
    about = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    return str(about["base_model_name_or_path"])


def _beneath(model: Any) -> dict[str, Tensor]:
    """Weights of a model without the adapters in it, under the names they had."""
    return {
        name.replace(".base_layer.", "."): value
        for name, value in model.state_dict().items()
        if ".lora_" not in name
    }
