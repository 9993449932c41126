"""Writers that ask a language model: a prompt per turn, the reply made clean.

    WriteRequest ─► prompt_of ─► ChatModel.complete ─► cleaned ─► Written

    writer_of    ModelWriter      any ChatModel
                 EndpointWriter   an OpenAI-compatible server
                 LanguageModelWriter   a transformers model in this process

Knows nothing of whether a reply keeps what the turn has to do: `faithfulness.keeps` weighs that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.language.endpoint import EndpointModel
from convgym.language.local_model import LocalModel
from convgym.language.models import ChatMessage, ChatModel
from convgym.language.style import Style
from convgym.language.writing import BatchWriter, Writer, WriteRequest, Written

PLACE = "the support chat of an online shop"
HISTORY = 6
"""Turns of the conversation that a prompt shows."""
_TURN_LENGTH = 400
"""Characters of each of them."""


class ModelWriter:
    """A chat model as a writer; copies and pickles as its model does."""

    def __init__(self, model: ChatModel, *, place: str = PLACE, history: int = HISTORY) -> None:
        """`place`: where the user writes, for the prompt. `history`: how many turns it shows."""
        if not callable(getattr(model, "complete", None)) or isinstance(model, type):
            raise InvalidConfiguration(
                f"a {type(model).__name__} came as a language model; give one that has "
                "complete(prompts, seeds), such as EndpointModel, LocalModel or CallableModel."
            )
        if isinstance(history, bool) or not isinstance(history, int) or history < 0:
            raise InvalidConfiguration(f"history is {history!r}; it takes a whole number from 0.")
        if not isinstance(place, str):
            raise InvalidConfiguration(f"place is a {type(place).__name__}; it takes a str.")
        self.model, self.place, self.history = model, place, history

    def write(self, requests: Sequence[WriteRequest]) -> list[Written]:
        """See `BatchWriter.write`."""
        if not requests:
            return []
        prompts = [prompt_of(request, self.place, self.history) for request in requests]
        try:
            completions = self.model.complete(prompts, [request.seed for request in requests])
            found = [_written(text, error) for text, error in map(_fields, completions)]
        except Exception as error:  # a model of somebody's own
            return [Written("", f"the model raised {type(error).__name__}")] * len(requests)
        if len(found) != len(requests):
            return [Written("", f"{len(found)} replies to {len(requests)} prompts")] * len(requests)
        return found

    def close(self) -> None:
        """Give back what the model holds, where it holds something."""
        close = getattr(self.model, "close", None)
        if callable(close):
            close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


class EndpointWriter(ModelWriter):
    """A writer behind an OpenAI-compatible server; `settings` are those of `EndpointModel`."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        place: str = PLACE,
        history: int = HISTORY,
        **settings: Any,
    ) -> None:
        super().__init__(EndpointModel(url, model, **settings), place=place, history=history)


class LanguageModelWriter(ModelWriter):
    """A transformers model as a writer; `settings` are those of `LocalModel`."""

    def __init__(
        self,
        model_or_path: Any,
        tokenizer: Any = None,
        *,
        place: str = PLACE,
        history: int = HISTORY,
        **settings: Any,
    ) -> None:
        model = LocalModel(model_or_path, tokenizer, **settings)
        super().__init__(model, place=place, history=history)


_KINDS: dict[str, tuple[Callable[..., ModelWriter], tuple[str, ...]]] = {
    "endpoint": (EndpointWriter, ("url", "model")),
    "local": (LanguageModelWriter, ("model",)),
}


def writer_of(given: Any) -> Writer | BatchWriter:
    """A writer from itself, a callable, a chat model, or a mapping as JSON has it.

        {"kind": "endpoint", "url": "http://localhost:8000/v1", "model": "my-model", "timeout": 5}
        {"kind": "local", "model": "path/to/model", "temperature": 0.9}

    Further entries are settings of the model. Raises InvalidConfiguration for anything else.
    """
    if isinstance(given, Mapping):
        return _from_mapping(given)
    if not isinstance(given, type):
        if isinstance(given, BatchWriter) or callable(given):
            return given
        if callable(getattr(given, "complete", None)):
            return ModelWriter(given)
    raise InvalidConfiguration(
        f"writer is {str(given)[:40]!r}; it takes a callable from WriteRequest to str, a writer "
        'such as EndpointWriter(url, model), or {"kind": "endpoint", "url": …, "model": …}.'
    )


def _from_mapping(given: Mapping[str, Any]) -> ModelWriter:
    settings = dict(given)
    kind = settings.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidConfiguration(
            f"the writer's kind is {str(kind)[:40]!r}; it takes one of {', '.join(_KINDS)}."
        )
    make, needed = _KINDS[kind]
    missing = [name for name in needed if name not in settings]
    if missing:
        raise InvalidConfiguration(f"a writer of kind {kind!r} needs {' and '.join(missing)} too.")
    wanted = [settings.pop(name) for name in needed]
    try:
        return make(*wanted, **settings)
    except ConvGymError:
        raise
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument ('\w+')", str(error))
        what = f"does not know {unknown[1]}" if unknown else "has a setting of a wrong type"
        raise InvalidConfiguration(
            f"a writer of kind {kind!r} {what}; see EndpointModel and LocalModel for theirs."
        ) from error
    except (OSError, ValueError) as error:
        raise InvalidConfiguration(
            f"the writer of kind {kind!r} cannot be made ({type(error).__name__}); "
            "check its model and settings."
        ) from error


# -- the prompt ------------------------------------------------------------------------------------

_TASK = (
    "You word the messages of a customer who writes to {place}. You get a draft of the next "
    "message. Say the same in this customer's own words: the same content, nothing added, nothing "
    "left out, no question or request that the draft does not have. Answer with the customer's "
    "message alone, on one line, without quotation marks and without any remark of your own."
)
_DEGREES = ((0.15, "not at all"), (0.35, "not very"), (0.65, ""), (0.85, "rather"), (1.01, "very"))
_QUALITIES = {
    "patience": "patient",
    "expertise": "experienced",
    "cooperativeness": "cooperative",
    "assertiveness": "assertive",
    "scepticism": "sceptical",
    "curiosity": "curious",
}


def prompt_of(
    request: WriteRequest, place: str = PLACE, history: int = HISTORY
) -> list[ChatMessage]:
    """What a model is asked for a turn."""
    parts = []
    said = request.history[-history:] if history else ()
    if said:
        lines = (f"{who}: {' '.join(text.split())[:_TURN_LENGTH]}" for who, text in said)
        parts.append("The conversation so far:\n" + "\n".join(lines))
    acts = ", ".join(spoken.act.replace("_", " ") for spoken in request.spoken)
    parts.append(f"What the customer does now: {acts}.")
    values = [f"{spoken.slot} {spoken.value}" for spoken in request.spoken if spoken.slot]
    if values:
        parts.append("To be copied exactly, letter by letter: " + "; ".join(values) + ".")
    parts.append(f"The draft: {request.draft}")
    parts.append("The customer's message:")
    who = " ".join((_TASK.format(place=place), _person(request.persona), _manner(request.style)))
    return [ChatMessage("system", who), ChatMessage("user", "\n\n".join(parts))]


def _person(persona: Mapping[str, Any]) -> str:
    """Who writes, in words; what is in the middle needs none."""
    found = [str(trait) for trait in persona.get("traits", ())]
    for trait, quality in _QUALITIES.items():
        level = persona.get(trait, 0.5)
        degree = next(words for top, words in _DEGREES if level < top)
        if degree:
            found.append(f"{degree} {quality}")
    return f"The customer is {', '.join(found) or 'an ordinary person'}."


def _manner(style: Style) -> str:
    manner = ["casual", "neutral", "formal"][min(style.formality * 3 // 100, 2)]
    length = ["as few words as possible", "about as many words as the draft", "many words"]
    spelling = " There are a few slips of the pen, but none in what is to be copied."
    return (
        f"They write in a {manner} tone, with {length[min(style.verbosity * 3 // 100, 2)]}."
        + spelling * (style.typo_rate >= 20)
    )


# -- the reply -------------------------------------------------------------------------------------

_THOUGHT = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL | re.IGNORECASE)
_PREFIX = re.compile(
    r"^\s*(?:the )?(?:customer|user)(?:'s)?(?: (?:message|reply|turn))?\s*:\s*", re.IGNORECASE
)
_QUOTES = {'"': '"', "“": "”", "„": "“", "'": "'", "‘": "’", "«": "»", "`": "`"}


def cleaned(text: str) -> str:
    """A reply without thoughts, without the name before it and the quotation marks around it."""
    text = _THOUGHT.sub("", text).strip()
    for _ in range(2):  # "Customer: "…"" and "Customer: …" in quotation marks
        text = _PREFIX.sub("", text).strip()
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
            inner = text[1:-1]
            if text[0] not in inner and text[-1] not in inner:
                text = inner.strip()
    return text


def _fields(completion: Any) -> tuple[str, str]:
    return completion.text, completion.error


def _written(text: str, error: str) -> Written:
    if error:
        return Written("", error)
    text = cleaned(text)
    return Written(text) if text else Written("", "empty reply")
