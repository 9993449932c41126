"""Token-sequence models as learners need them: what was read so far as a vector, and next tokens.

    tokens (B, L) ─► hidden (B, L, width) ─► logits (B, L, vocabulary) of the token that follows

`TokenGRU` is a small one for small vocabularies; `CausalLM` puts any causal model of transformers
behind the same face, which `token_model` does where it is needed. Rows are padded on the right, and
a place knows only what stands before it, so that padding changes nothing. Knows nothing of what is
learnt.
"""

from __future__ import annotations

from typing import Any, Protocol

from convgym.errors import InvalidConfiguration, MissingExtra

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


class TokenModel(Protocol):
    """What ILQL and SFT learn with: a torch module with these two methods."""

    width: int
    """Size of a hidden vector."""
    vocabulary: int
    """Number of tokens."""

    def hidden(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """What was read up to each place, it included.  (B, L) → (B, L, width)"""
        ...

    def logits(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """Of the token that follows each place.  (B, L) → (B, L, vocabulary)"""
        ...


class TokenGRU(nn.Module):
    """One recurrent layer; the same `seed` gives the same weights."""

    def __init__(self, vocabulary: int, width: int = 96, seed: int = 0) -> None:
        super().__init__()
        self.vocabulary, self.width = vocabulary, width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embed = nn.Embedding(vocabulary, width)
            self.recur = nn.GRU(width, width, batch_first=True)
            self.head = nn.Linear(width, vocabulary)

    def hidden(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """As `TokenModel`; padding on the right is read last and so needs no mask."""
        found: Tensor = self.recur(self.embed(tokens))[0]
        return found

    def logits(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """As `TokenModel`."""
        found: Tensor = self.head(self.hidden(tokens, attention))
        return found


class CausalLM(nn.Module):
    """A causal language model of transformers, given as an instance."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.width: int = model.config.hidden_size
        self.vocabulary: int = model.get_output_embeddings().weight.shape[0]

    def hidden(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """As `TokenModel`, in single precision; the language head is not run."""
        found = self.model.base_model(input_ids=tokens, attention_mask=attention.long())
        states: Tensor = found.last_hidden_state
        return states.float()

    def logits(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """As `TokenModel`, in single precision."""
        found: Tensor = self.model(input_ids=tokens, attention_mask=attention.long()).logits
        return found.float()


def token_model(given: Any) -> Any:
    """A `TokenModel` as it is; a LanguageModel or a transformers model as one, weights shared.

    Raises InvalidConfiguration for anything else.
    """
    if callable(getattr(given, "hidden", None)) and callable(getattr(given, "logits", None)):
        return given
    causal = getattr(given, "causal", given)
    if callable(getattr(causal, "get_output_embeddings", None)):
        return CausalLM(causal)
    raise InvalidConfiguration(
        f"a {type(given).__name__} is no model of tokens; give a TokenModel, a LanguageModel, or a "
        "causal model of transformers"
    )
