"""A domain of one's own from a folder of four TOML files; see `folder.md` beside this module.

    schema.toml ─► records     workflows.toml, rules.toml ─► declaration ─► cells, acts, tasks
    phrases.toml ─► [user], [agent] words, [cues] for reading free text; what is left out is made
                    from the names: "ask_card" is asked for as "Could you tell me your card?"

Knows no domain; everything it needs stands in the folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from convgym.desk.desk import ServiceDesk
from convgym.desk.loading import declaration_of, read_toml
from convgym.desk.records import DeclaredRecords
from convgym.desk.state import Case
from convgym.desk.tasks import Tasks
from convgym.desk.vocabulary import Vocabulary, described_by
from convgym.errors import InvalidConfiguration
from convgym.language.phrases import PhraseBank, packaged_banks
from convgym.language.retrieval import TurnIndex
from convgym.language.speech import Claim, SpeechReader
from convgym.language.tagging import ActTagger
from convgym.language.voice import Voice

_SECTIONS = ("user", "agent", "cues", "held_out")
_HARMLESS = ("greet", "ask_intent", "apologise", "wait", "close", "explain", "ask")


_UNVERIFIED = [
    "could/can/was/am not -/able/possible -/to verify/identify/authenticate",
    "couldnt/cannot/cant/unable verify/identify/authenticate",
    "unable to verify/identify/authenticate",
]


def _said(name: str) -> str:
    return name.replace("_", " ")


class FolderDesk(ServiceDesk):
    """The desk that a folder declares.

    Raises InvalidConfiguration that names what is wrong with the folder.
    """

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder)
        if not path.is_dir():
            raise InvalidConfiguration(
                f"{str(folder)!r} is no folder; a domain of one's own is a folder with "
                "schema.toml, workflows.toml, rules.toml and phrases.toml"
            )
        self.made_from = (folder,)
        declaration, schema = declaration_of(path)
        super().__init__(
            Vocabulary(declaration), Tasks(declaration, DeclaredRecords(declaration, schema))
        )
        words = read_toml(path / "phrases.toml")
        for section in words:
            if section not in _SECTIONS:
                raise InvalidConfiguration(
                    f"phrases.toml has a section [{section}]; it may have {', '.join(_SECTIONS)}"
                )
        self._words = words
        self._reader = SpeechReader(self._cues(words.get("cues", {})))
        self._check_names()
        self.utterances = self._some_words()
        if "held_out" not in words:
            self.splits = tuple(split for split in self.splits if split != "test_lexical")

    # -- the customer's words ----------------------------------------------------------------------

    def user_voices(self) -> dict[str, Voice]:
        """The customer's wordings; those of `held_out` are the same where the folder has none."""
        return self._voices

    @cached_property
    def _voices(self) -> dict[str, Voice]:
        manners = packaged_banks("convgym.desk", "user_phrases.toml")
        own = {**self._plain_user_words(), **self._words.get("user", {})}
        held_out = {**own, **self._words.get("held_out", {}).get("user", {})}
        return {
            part: Voice(manners[part].extended(words), TurnIndex({}))
            for part, words in (("train", own), ("held_out", held_out))
        }

    def _plain_user_words(self) -> dict[str, list[str]]:
        """Words made from the names, for every act that is about this domain."""
        d = self.declaration
        words = {f"request_{name}": [f"It is about this: {_said(name)}."] for name in d.names}
        named = [d.account.key, d.account.secret]
        for kind in d.kinds:
            named += [kind.name, *(x for x in described_by(kind) if x != kind.date)]
            words[f"inform_{kind.date}"] = ["It is from {date}.", f"{_said(kind.date)} {{date}}"]
            words[f"correct_{kind.name}"] = [f"That is not the {_said(kind.name)} that I mean."]
        named += [name for name, known in d.details.items() if not known]
        for name in named:
            words[f"inform_{name}"] = [
                f"The {_said(name)} is {{{name}}}.",
                f"It is {{{name}}}.",
                f"{_said(name)}: {{{name}}}",
            ]
        for name, known in d.details.items():
            for word in known:
                words[f"inform_{name}_{word}"] = [f"{_said(name).capitalize()}: {_said(word)}."]
        for term in d.terms:
            words[f"ask_{term}"] = [f"And what about the {_said(term)}?"]
        return words

    def user_tagger(self) -> ActTagger:
        """What reads a customer's words, learned from this desk's wordings."""
        return self._tagger

    @cached_property
    def _tagger(self) -> ActTagger:
        bank = self._voices["train"].bank
        examples = [(phrase, (name,)) for name in bank for phrase in bank.variants(name)]
        return ActTagger(examples)

    # -- the agent's words -------------------------------------------------------------------------

    def agent_banks(self) -> dict[str, PhraseBank]:
        """The agent's wordings by part."""
        return self._agent_banks

    @cached_property
    def _agent_banks(self) -> dict[str, PhraseBank]:
        general = packaged_banks("convgym.desk", "agent_phrases.toml")
        own = {**self._plain_agent_words(), **self._words.get("agent", {})}
        held_out = {**own, **self._words.get("held_out", {}).get("agent", {})}
        return {"train": general["train"].extended(own), "held_out": general["held_out"].extended(
            held_out
        )}

    def _some_words(self) -> tuple[str, ...]:
        """What a random text policy says."""
        bank, d = self.agent_banks()["train"], self.declaration
        said = ["greet", "ask_intent", "ask_more", "apologise", "close"]
        said += [f"ask_{slot}" for slot in d.slots]
        calls = [f"list_{kind.many}" for kind in d.kinds] + ["transfer_to_human"]
        return (
            *(bank.variants(name)[0] for name in said),
            *(f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>' for name in calls),
        )

    def _plain_agent_words(self) -> dict[str, list[str]]:
        d = self.declaration
        words = {f"ask_{slot}": [f"Could you tell me the {_said(slot)}?"] for slot in d.slots}
        for fact in d.facts:
            words[f"inform_{fact}"] = [f"The {_said(fact)} is {{{fact}}}."]
        for term, values in d.terms.items():
            for value in values:
                words[f"inform_{term}_{value}"] = [f"The {_said(term)} is {_said(value)}."]
        for workflow in d.writes:
            deed = _said(workflow.tool)
            words[f"confirm_{workflow.name}"] = [f"Shall I {deed}? Please answer yes or no."]
            words[f"done_{workflow.name}"] = ["It is done."]
        for reason in d.reasons:
            words[f"deny_{reason}"] = [f"I am sorry, but I cannot do that: {_said(reason)}."]
        for offer in d.offers:
            words[f"offer_{offer}"] = [f"Instead I can offer you {_said(offer)}."]
        return words

    # -- reading -----------------------------------------------------------------------------------

    def _cues(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The folder's cues over those that follow from the names."""
        d = self.declaration
        handles = [kind.name for kind in d.kinds if "_" not in kind.name]
        cues: dict[str, Any] = {
            "ask": {slot: [_said(slot)] for slot in d.slots},
            "offer": {offer: [_said(offer)] for offer in d.offers},
            "deny": {
                "unverified": {"alone": _UNVERIFIED},
                **{reason: {"because": [_said(reason)]} for reason in d.reasons[1:]},
            },
            "deed": {w.name: {"do": [_said(w.tool)]} for w in d.writes},
            "fact": {name: {"kind": "text", "names": [_said(name)]} for name in d.facts},
            "object": {"id": self._id_patterns, "handles": handles},
        }
        for term, values in d.terms.items():
            cues["fact"][term] = {value: [f"{_said(term)} is {_said(value)}"] for value in values}
        for section, body in given.items():
            known = cues.setdefault(section, {})
            cues[section] = {**known, **body} if isinstance(body, Mapping) else body
        return cues

    @property
    def _id_patterns(self) -> list[str]:
        """How numbers of records look, from one of each kind."""
        first = (self.records.text(kind.name, 0, kind.name) for kind in self.declaration.kinds)
        return ["".join(r"\d" if c.isdigit() else c for c in number) for number in first]

    def read_speech(self, text: str) -> Sequence[Claim]:
        """What an agent's words claim."""
        claims: Sequence[Claim] = self._reader.read(text)
        if self.reranker is None or any(claim.act not in ("chat", "jargon") for claim in claims):
            return claims
        labels = (label.rstrip(")").partition("(") for label in self.reranker.propose(text))
        return (*(Claim(act, slot) for act, _, slot in labels if act in _HARMLESS), *claims)

    def agrees_on(self, case: Case, workflow: str, value: str) -> bool:
        """Figures beside a question for a yes are not held against it; the call's are."""
        return True

    def own_reranker(self) -> Any:
        """None: a folder's words are read by its cues alone."""
        raise InvalidConfiguration(
            "a domain of one's own has no reranker; hand in an object with propose(text), or "
            "widen the cues in phrases.toml"
        )

    # -- what its author wants to know -------------------------------------------------------------

    def _check_names(self) -> None:
        """Phrases under a name that no act has are a slip of the pen."""
        user = set(self.v.user_acts)
        agent = set(self._plain_agent_words()) | set(
            packaged_banks("convgym.desk", "agent_phrases.toml")["train"]
        )
        agent |= {f"think_{name}" for name in self.schemas}
        parts = [("", self._words), ("held_out.", self._words.get("held_out", {}))]
        for before, part in parts:
            for section, known in (("user", user), ("agent", agent)):
                unknown = sorted(set(part.get(section, {})) - known)
                if unknown:
                    raise InvalidConfiguration(
                        f"phrases.toml [{before}{section}] has {unknown[0]!r}, which is no act of "
                        f"this domain; its acts are {', '.join(sorted(known))}"
                    )

    def unread(self) -> list[tuple[str, str, str]]:
        """(act, wording, what it was read as) of the agent's wordings that are not read back.

        Empty for a folder whose words and cues agree.
        """
        found = []
        for part in ("train", "held_out"):
            bank = self.agent_banks()[part]
            for name in bank:
                wanted = _label(name, self)
                for phrase in bank.variants(name) if wanted else ():
                    read = [str(claim) for claim in self._reader.read(_filled(phrase))]
                    if not any(label.startswith(wanted) for label in read):
                        found.append((name, phrase, ", ".join(read)))
        return list(dict.fromkeys(found))


_LABELS = {
    "greet": "greet",
    "ask_intent": "ask_intent",
    "ask_more": "ask(more)",
    "apologise": "apologise",
    "close": "close",
}


def _label(name: str, desk: FolderDesk) -> str:
    """The claim that a wording of this name has to be read as; empty where none is needed."""
    if name in _LABELS:
        return _LABELS[name]
    act, _, rest = name.partition("_")
    if act == "think":
        return ""
    if act == "explain":
        return "explain"
    if act == "inform":
        for term, values in desk.declaration.terms.items():
            for value in values:
                if rest == f"{term}_{value}":
                    return f"inform({term}={value})"
        return f"inform({rest}"
    return f"{act}({rest})"


def _filled(phrase: str) -> str:
    """A wording with something in its placeholders."""
    while "{" in phrase:
        before, _, rest = phrase.partition("{")
        phrase = f"{before}5 May{rest.partition('}')[2]}"
    return phrase
