"""A domain of one's own from a folder of four TOML files; see `README.md` beside this module.

    schema.toml ─► records     workflows.toml, rules.toml ─► declaration ─► cells, acts, tasks
    phrases.toml ─► [user], [agent] words, [cues] for reading free text; what is left out is made
                    from the names: "ask_card" is asked for as "Could you tell me your card?"

Knows no domain; everything it needs stands in the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from convgym.desk import grounding
from convgym.desk.declaration import ACCOUNT
from convgym.desk.desk import ServiceDesk
from convgym.desk.loading import declaration_of, read_toml
from convgym.desk.records import DeclaredRecords, figures_of
from convgym.desk.state import Case
from convgym.desk.tasks import Tasks
from convgym.desk.vocabulary import Vocabulary, described_by
from convgym.engine.acts import AgentTurn
from convgym.engine.episode import Episode
from convgym.errors import InvalidConfiguration
from convgym.language.cue_lint import lint
from convgym.language.figures import as_sum
from convgym.language.phrases import PhraseBank, packaged_banks
from convgym.language.retrieval import TurnIndex
from convgym.language.speech import Claim, SpeechReader
from convgym.language.tagging import ActTagger, off_topic
from convgym.language.voice import Voice

_SECTIONS = ("user", "agent", "cues", "held_out")
_DECLARED = ("ask", "deed", "deny", "offer", "fact")
"""Sections of the cues whose names are those of the declaration."""
_HARMLESS = ("greet", "ask_intent", "apologise", "wait", "close", "explain", "ask")


_UNVERIFIED = [
    "could/can/was/am not -/able/possible -/to verify/identify/authenticate",
    "couldnt/cannot/cant/unable verify/identify/authenticate",
    "unable to verify/identify/authenticate",
]


def _said(name: str) -> str:
    return name.replace("_", " ")


def _check_tables(words: Mapping[str, Any]) -> None:
    """Raise InvalidConfiguration where phrases.toml has other sections than there are."""
    parts: list[tuple[str, Mapping[str, Any], tuple[str, ...]]] = [("", words, _SECTIONS)]
    if isinstance(words.get("held_out"), Mapping):
        parts.append(("held_out.", words["held_out"], _SECTIONS[:2]))
    for before, part, known in parts:
        for section, body in part.items():
            if section not in known:
                raise InvalidConfiguration(
                    f"phrases.toml has a section [{before}{section}]; it may have "
                    f"{', '.join(before + name for name in known)}"
                )
            if not isinstance(body, Mapping):
                raise InvalidConfiguration(
                    f"phrases.toml: {before}{section} is {body!r:.40}; write a table, "
                    f"[{before}{section}]"
                )


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
        _check_tables(words)
        self._words = words
        self._reader = SpeechReader(self._cues(words.get("cues", {})))
        self._check_names()
        self._reader = SpeechReader(self._with_cues_for_made_words(words.get("cues", {})))
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
        return ActTagger([*examples, *((text, ()) for text in off_topic())])

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
            deed = _said(workflow.name)
            words[f"confirm_{workflow.name}"] = [f"Shall I go ahead with the {deed}?"]
            words[f"done_{workflow.name}"] = [f"The {deed} is done."]
        for reason in d.reasons:
            words[f"deny_{reason}"] = [f"I am sorry, but I cannot do that: {_said(reason)}."]
        words["deny_unverified"] = ["I am sorry, I could not verify who you are."]
        for offer in d.offers:
            words[f"offer_{offer}"] = [f"Instead I can offer you {_said(offer)}."]
        return words

    # -- reading -----------------------------------------------------------------------------------

    def _cues(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The folder's cues over those that follow from the names.

        A deed keeps the noun that its name makes, and `unverified` its phrases, unless they are
        given as well.
        """
        d = self.declaration
        kinds = [kind.name for kind in d.kinds]
        cues: dict[str, Any] = {
            "ask": {slot: [_said(slot)] for slot in d.slots},
            "offer": {offer: [_said(offer)] for offer in d.offers},
            "deny": {
                "unverified": {"alone": _UNVERIFIED},
                **{
                    reason: {"because": [_said(reason)]}
                    for reason in d.reasons
                    if reason != "unverified"
                },
            },
            # What is called like a kind of record is mostly the record when it is spoken of.
            "deed": {
                w.name: {"do": [_said(w.tool)], "noun": [_said(w.name)] * (w.name not in kinds)}
                for w in d.writes
            },
            "fact": {name: {"kind": "text", "names": [_said(name)]} for name in d.facts},
            "object": {"id": self._id_patterns, "handles": [k for k in kinds if "_" not in k]},
        }
        for term, values in d.terms.items():
            cues["fact"][term] = {value: [f"{_said(term)} is {_said(value)}"] for value in values}
        for section, body in given.items():
            made = cues.setdefault(section, {})
            if not isinstance(body, Mapping):
                cues[section] = body
                continue
            unknown = [name for name in body if name not in made]
            if section in _DECLARED and unknown:
                raise InvalidConfiguration(
                    f"[cues.{section}]: {', '.join(unknown)} is not declared; there are "
                    f"{', '.join(made) or 'none'}"
                )
            for name, one in body.items():
                if section in ("deed", "deny") and isinstance(one, Mapping):
                    before: Mapping[str, Any] = made.get(name, {})
                    kept = {key: before[key] for key in ("noun", "alone") if key in before}
                    made[name] = {**kept, **one}
                else:
                    made[name] = one
        return cues

    def _with_cues_for_made_words(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The cues, and one more for each act whose words are made from names and not read.

        Given cues stand in the place of those made from names, but words may be left out.
        """
        cues, d = self._cues(given), self.declaration
        own = self._words.get("agent", {})
        for name, phrases in self._plain_agent_words().items():
            if name in own or not any(True for _ in self._misread(name, phrases[0])):
                continue
            act, _, rest = name.partition("_")
            said = _said(rest)
            if act == "ask":
                cues["ask"][rest] = _with(cues["ask"][rest], f"tell me the {said}")
            elif act == "offer":
                cues["offer"][rest] = _with(cues["offer"][rest], said)
            elif act == "deny":
                denial: dict[str, Any] = cues["deny"][rest]
                key, more = ("alone", _UNVERIFIED) if rest == "unverified" else ("because", said)
                denial[key] = _with(denial.get(key, []), more)
            elif act == "inform" and "kind" in cues["fact"].get(rest, {}):
                fact = cues["fact"][rest]
                cues["fact"][rest] = {**fact, "names": _with(fact.get("names", []), said)}
            elif act == "inform":
                for term, values in d.terms.items():
                    for value in (v for v in values if rest == f"{term}_{v}"):
                        told, phrase = cues["fact"][term], f"{_said(term)} is {_said(value)}"
                        cues["fact"][term] = {**told, value: _with(told.get(value, []), phrase)}
        return cues

    @property
    def _id_patterns(self) -> list[str]:
        """How numbers of records look, from one of each kind."""
        first = (self.records.text(kind.name, 0, kind.name) for kind in self.declaration.kinds)
        return ["".join(r"\d" if c.isdigit() else c for c in number) for number in first]

    def understand(self, episode: Episode, text: str) -> AgentTurn:
        """The agent turn that a reply stands for; it may call records in view by their labels."""
        names = grounding.labels_in_view(self, episode)
        return grounding.understand(text, partial(self.read_speech, names=names))

    def read_speech(self, text: str, names: Sequence[str] = ()) -> Sequence[Claim]:
        """What an agent's words claim; `names` are labels of records in view."""
        claims: Sequence[Claim] = self._reader.read(text, names)
        if self.reranker is None or any(claim.act not in ("chat", "jargon") for claim in claims):
            return claims
        labels = (label.rstrip(")").partition("(") for label in self.reranker.propose(text))
        return (*(Claim(act, slot) for act, _, slot in labels if act in _HARMLESS), *claims)

    def agrees_on(self, case: Case, workflow: str, value: str) -> bool:
        """Whether the figures that a question for a yes names are what the customer wants.

        Right are those of the wanted detail, of the record and its account, of the policy and of
        today; a figure of another word of the detail is wrong wherever else it stands.
        """
        if workflow != case.workflow.name or not value:
            return True
        named = {as_sum(figure) for figure in value.split("; ")}
        wanted, others = self._figures_of_detail(case)
        if not named.isdisjoint(others):
            return False
        texts = self._texts_of(case)
        known = {*wanted, *(figure for text in texts for figure in figures_of(text))}
        return named <= known or named <= known.union(
            figures_of(self.policy_document(case.episode.task))
        )

    def _texts_of(self, case: Case) -> list[str]:
        """All that the agent can have read of a customer and of the record that is meant."""
        d, records, kind = self.declaration, self.records, case.workflow.kind
        fields = (d.account.key, d.account.secret, *records.columns[ACCOUNT])
        texts = [records.text(ACCOUNT, case.episode.task.account, field) for field in fields]
        if kind:
            texts += self.shown(kind, case.request.row, True).values()
            own = (name for name in case.workflow.details if not d.details[name])
            texts += (records.text(kind, case.request.row, name) for name in own)
        return [*texts, records.today()]

    def agrees_with_report(self, case: Case, workflow: str, value: str) -> bool:
        """Whether what a report names is what was done: no figure of another word of the detail.

        Other figures ("within 24 hours") are not held against a report.
        """
        if workflow != case.workflow.name or not value:
            return True
        _, others = self._figures_of_detail(case)
        return others.isdisjoint(as_sum(figure) for figure in value.split("; "))

    def _figures_of_detail(self, case: Case) -> tuple[set[str], set[str]]:
        """(figures of the detail that is wanted, figures of the other words it may be)."""
        wanted: set[str] = set()
        others: set[str] = set()
        for name in case.workflow.details:
            for place, word in enumerate(self.declaration.details[name]):
                of = wanted if place == case.request.detail else others
                of.update(figures_of(_said(word)))
        return wanted, others - wanted

    def own_reranker(self) -> Any:
        """None: a folder's words are read by its cues alone."""
        raise InvalidConfiguration(
            "a domain of one's own has no reranker; hand in an object with propose(text), or "
            "widen the cues in phrases.toml"
        )

    # -- what its author wants to know -------------------------------------------------------------

    def _check_names(self) -> None:
        """Phrases under a name that no act has, and placeholders for nothing, are slips of the pen.
        """
        user = set(self.v.user_acts)
        agent = set(self._plain_agent_words()) | set(
            packaged_banks("convgym.desk", "agent_phrases.toml")["train"]
        )
        agent |= {f"think_{name}" for name in self.schemas}
        faults = []
        parts = [("", self._words), ("held_out.", self._words.get("held_out", {}))]
        for before, part in parts:
            for section, known in (("user", user), ("agent", agent)):
                place = f"phrases.toml [{before}{section}]"
                for name, given in part.get(section, {}).items():
                    if name not in known:
                        faults.append(
                            f"{place} has {name!r}, which is no act of this domain; its acts are "
                            f"{', '.join(sorted(known))}"
                        )
                        continue
                    holds = self._placeholders(section, name)
                    asked = [x for w in PhraseBank({name: given}).variants(name) for x in _held(w)]
                    faults += [
                        f"{place} {name}: there is nothing for {{{x}}}; there is "
                        f"{', '.join(sorted(holds)) or 'nothing to put in'}"
                        for x in dict.fromkeys(asked)
                        if x not in holds
                    ]
        if faults:
            raise InvalidConfiguration("; ".join(faults))

    def _placeholders(self, section: str, name: str) -> set[str]:
        """What may stand in braces in the wordings of an act."""
        if section == "user":
            return {self.value_slots[name]} if name in self.value_slots else set()
        return set(self._in_sight(name, 0))

    def _kind_of(self, name: str) -> str:
        """The kind of record that an act of the agent is about; of several the first."""
        d = self.declaration
        act, _, rest = name.partition("_")
        if act == "inform":
            for workflow in d.workflows:
                told = [f"{term}_{value}" for term in workflow.terms for value in d.terms[term]]
                if rest in (*workflow.facts, *told):
                    return workflow.kind
        if act in ("confirm", "done"):
            return d.workflow[rest].kind
        return ACCOUNT

    def _in_sight(self, name: str, account: int) -> dict[str, str]:
        """What an act's wordings may name, with the values of one of the accounts."""
        d, records = self.declaration, self.records
        kind = self._kind_of(name)
        seen = {key: str(values[0]) for key, values in d.parameters.items()}
        for field in (d.account.key, d.account.secret):
            seen[field] = records.text(ACCOUNT, account, field)
        for detail, words in d.details.items():
            seen[detail] = words[0] if words else ""
        # An act that belongs to no workflow may be about any record.
        for other in d.kinds:
            if not kind or other.name == kind:
                first = account * other.each
                heard = (other.name, *described_by(other))
                seen |= {field: records.text(other.name, first, field) for field in heard}
                seen |= self.shown(other.name, first, True)
        return seen

    def complaints(self) -> list[str]:
        """What the folder's cues could do better, in sentences."""
        return lint(self._reader.cues)

    def made_words(self) -> list[str]:
        """The acts whose words are made from names, "user request_renewal"; the author's are not.
        """
        made = (("user", self._plain_user_words()), ("agent", self._plain_agent_words()))
        return [
            f"{section} {name}"
            for section, words in made
            for name in words
            if name not in self._words.get(section, {})
        ]

    def unread(self) -> list[tuple[str, str, str]]:
        """(act, wording, what it was read as) of the agent's wordings that are not read back.

        Each is tried with the values of some records. Empty for a folder whose words and cues
        agree.
        """
        found = []
        for part in ("train", "held_out"):
            bank = self.agent_banks()[part]
            for name in bank:
                for phrase in bank.variants(name) if _label(name, self) else ():
                    found += next(([one] for one in self._misread(name, phrase)), [])
        return list(dict.fromkeys(found))

    def _misread(self, name: str, phrase: str) -> Iterator[tuple[str, str, str]]:
        for account in range(_TRIED):
            values = self._in_sight(name, account)
            text = phrase
            for field in _held(phrase):
                text = text.replace("{" + field + "}", values.get(field, ""))
            labels = [
                self.records.text(kind.name, account * kind.each, kind.label)
                for kind in self.declaration.kinds
            ]
            read = self._reader.read(text, labels)
            if not any(self._is_meant(name, account, claim) for claim in read):
                yield name, text, ", ".join(map(str, read))

    def _is_meant(self, name: str, account: int, claim: Claim) -> bool:
        """Whether a wording of this name was read as it has to be, its figure included."""
        fact = name.removeprefix("inform_")
        if not str(claim).startswith(_label(name, self)):
            return False
        if name == fact or fact not in self.declaration.facts:
            return True
        kind = self.declaration.facts[fact]
        row = account * self.declaration.kind[kind].each
        return self.records.agrees(kind, row, fact, claim.value)


def _with(phrases: str | list[str], more: str | list[str]) -> list[str]:
    """Phrases, one or several, and more of them."""
    one, other = ([x] if isinstance(x, str) else list(x) for x in (phrases, more))
    return [*one, *other]


_TRIED = 8
"""Accounts whose values a wording is tried with."""
_PLACEHOLDER = re.compile(r"\{(.*?)\}")


def _held(phrase: str) -> list[str]:
    """The placeholders of a wording."""
    return _PLACEHOLDER.findall(phrase)


_LABELS = {
    "greet": "greet",
    "ask_intent": "ask_intent",
    "ask_more": "ask(more)",
    "apologise": "apologise",
    "close": "close",
}


def _label(name: str, desk: FolderDesk) -> str:
    """How the claim begins that a wording of this name has to be read as; empty: no matter."""
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
        return f"inform({rest}="
    return f"{act}({rest})"
