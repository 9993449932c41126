"""The tools of a desk: reads and changes over its records, each answering in JSON.

A read sets belief cells; a change goes into the episode's diff after the rules have been asked
which obligations it breaks. A tool does what it is told: that a policy forbids a change is found
out by the grading, not by the tool. A tool may fail at first, which costs a turn and no error.
"""

from __future__ import annotations

from convgym.desk.declaration import ACCOUNT
from convgym.desk.state import Case, answer_json, difference, error_json, row_of
from convgym.desk.tasks import Tasks
from convgym.desk.vocabulary import (
    END_CONVERSATION,
    FIND,
    GET,
    GET_STATED,
    KEY,
    LIST,
    SECRET,
    TRANSFER_TO_HUMAN,
    VERIFY,
    WRITE,
    Vocabulary,
)
from convgym.engine.acts import Call
from convgym.engine.episode import Episode
from convgym.engine.rules import ALLOW, TRANSFER

UNSTATED, STATED_WRONG, RIGHT = -1, 0, 1
"""`detail` of a verification: a secret nobody said, what the customer said, the account's own."""


class Tools:
    """Runs calls against the records; holds no episode's state."""

    def __init__(self, vocabulary: Vocabulary, tasks: Tasks) -> None:
        self.v, self.tasks, self.records = vocabulary, tasks, tasks.records
        self.d = vocabulary.declaration

    def name(self, call: Call) -> str:
        """The tool's name."""
        d = self.d
        if call.tool in (LIST, GET, GET_STATED):
            kind = d.kinds[call.argument]
            return f"list_{kind.many}" if call.tool == LIST else f"get_{kind.name}"
        if call.tool == WRITE:
            return d.writes[call.argument].tool
        return {FIND: d.account.find, VERIFY: d.account.verify}.get(call.tool, "")

    def call(self, episode: Episode, call: Call) -> str:
        """Run one tool."""
        tool = call.tool
        if tool == TRANSFER_TO_HUMAN:
            return self._transfer(episode)
        if tool == END_CONVERSATION:
            episode.end = "agent_ended"
            episode.note("end_conversation", "")
            return answer_json(ended=True)
        if self._fails(episode, call):
            return error_json(f"{self.name(call)} is not available at the moment; try again")
        if tool == FIND:
            return self._find(episode, call.detail)
        if not episode.belief[self.v.found]:
            name = self.d.account.find
            return self.fail(episode, f"no account is open; call {name} first")
        if tool == VERIFY:
            return self._verify(episode, call.detail)
        if tool == LIST:
            return self._list(episode, call.argument)
        if tool in (GET_STATED, GET):
            return self._get(episode, call.argument, call.pointer)
        return self._write(episode, call)

    def fail(self, episode: Episode, sentence: str) -> str:
        """Charge an error to the budget."""
        episode.errors += 1
        episode.note("error", sentence)
        return error_json(sentence)

    def _fails(self, episode: Episode, call: Call) -> bool:
        faulty, desk = episode.task.faulty, episode.desk
        fails = bool(desk.faults) and self.tasks.tools[faulty] == self.name(call)
        desk.faults -= fails
        episode.belief[self.v.tool_failed] = fails
        if fails:
            episode.note("tool_failed", self.name(call))
        return fails

    # -- the account -------------------------------------------------------------------------------

    def _find(self, episode: Episode, account: int) -> str:
        v, belief, desk = self.v, episode.belief, episode.desk
        if account < 0:
            belief[v.rejected[KEY]] = 1
            episode.note(self.d.account.find, "no account")
            return error_json(f"no account is kept under this {self.d.account.key}")
        if desk.account != account:
            desk.account = account
            desk.asked_to_confirm = (-1, -1)
            for cell in v.of_account:
                belief[cell] = 0
        belief[v.found] = 1
        case = Case(v, episode)
        case.authenticate()
        self.weigh(episode)
        episode.note(self.d.account.find, str(account))
        shown = {
            field: self.records.text(ACCOUNT, account, field)
            for field in self.records.columns[ACCOUNT]
        }
        return answer_json(
            **{self.d.account.name: self.records.text(ACCOUNT, account, "name")},
            **shown,
            needs_verification=not belief[v.authenticated],
        )

    def _verify(self, episode: Episode, matches: int) -> str:
        v, belief = self.v, episode.belief
        episode.note(self.d.account.verify, "verified" if matches == RIGHT else "failed")
        if matches == RIGHT:
            belief[v.verified] = 1
            Case(v, episode).authenticate()
            return answer_json(verified=True)
        # Only what the customer said counts, and the same thing tried again counts once.
        if matches == STATED_WRONG and not belief[v.rejected[SECRET]]:
            belief[v.failures] = min(belief[v.failures] + 1, 255)
            belief[v.rejected[SECRET]] = 1
        return answer_json(
            verified=False, error=f"this is not the {self.d.account.secret} of the account"
        )

    # -- records -----------------------------------------------------------------------------------

    def _list(self, episode: Episode, number: int) -> str:
        kind, belief = self.d.kinds[number], episode.belief
        cells, first = self.v.of[kind.name], episode.desk.account * kind.each
        for cell in (*cells.seen, cells.listed):
            belief[cell] = 1
        self.match(episode)
        episode.note(f"list_{kind.many}", str(episode.desk.account))
        rows = [
            {
                "handle": f"{kind.name}:{k + 1}",
                kind.name: self.records.text(kind.name, first + k, kind.name),
                **{f: self.records.text(kind.name, first + k, f) for f in kind.listed},
            }
            for k in range(kind.each)
        ]
        return answer_json(**{kind.many: rows})

    def _get(self, episode: Episode, number: int, pointer: int) -> str:
        kind, belief = self.d.kinds[number], episode.belief
        if pointer < 0:
            belief[self.v.rejected[2 + number]] = 1
            episode.note(f"get_{kind.name}", f"no such {kind.name}")
            return error_json(f"this account has no such {kind.name}")
        row, cells = episode.desk.account * kind.each + pointer, self.v.of[kind.name]
        belief[cells.seen[pointer]] = belief[cells.read[pointer]] = belief[cells.read_any] = 1
        self.match(episode)
        self.weigh(episode)
        episode.note(f"get_{kind.name}", self.records.text(kind.name, row, kind.name))
        return answer_json(
            handle=f"{kind.name}:{pointer + 1}",
            **{kind.name: self.records.text(kind.name, row, kind.name)},
            **{field: self.records.text(kind.name, row, field) for field in kind.shown},
        )

    def match(self, episode: Episode) -> None:
        """Which records in view fit what the customer said of the one that is meant."""
        case, belief = Case(self.v, episode), episode.belief
        if not case.own_account or case.workflow.kind == ACCOUNT:
            return
        kind = self.d.kind[case.workflow.kind]
        cells, request = self.v.of[kind.name], case.request
        slot = self.v.slot_of[kind.name]
        first = case.desk.account * kind.each
        for k, seen in enumerate(cells.seen):
            if belief[seen]:
                meant = k == request.pointer
                belief[cells.id_matches[k]] = meant and case.desk.heard[slot] == 1
                belief[cells.date_matches[k]] = meant and belief[cells.date_heard]
                belief[cells.label_matches[k]] = belief[cells.label_heard] and (
                    self.records.same_label(kind.name, request.row, first + k)
                )

    def weigh(self, episode: Episode) -> None:
        """What the policy makes of what has been read, for the request that is made.

        A rule that asks for a detail counts only once the customer has said it.
        """
        v, belief, desk = self.v, episode.belief, episode.desk
        case = Case(v, episode)
        workflow = case.workflow
        if desk.account < 0 or not belief[v.wants[case.request.workflow]]:
            return
        kind = workflow.kind
        in_sight = [
            (place, pointer)
            for place, pointer in enumerate(v.places[kind])
            if pointer < 0 or belief[v.of[kind].read[pointer]]
        ]
        if not in_sight:
            return
        rules = self.d.rules_for(episode.task.split)
        heard = {
            name: case.request.detail
            for name in workflow.details
            if belief[v.heard_detail[name]]
        }
        unknown = [
            field
            for field, detail in self.tasks.depends.items()
            if detail in workflow.details and detail not in heard
        ]
        all_rules = self.d.rules.deciding(workflow.name)
        for place, pointer in in_sight:
            row = row_of(v, desk.account, kind, pointer)
            facts = self.tasks.facts(kind, row, desk.account) | desk.parameters | heard
            for field in unknown:
                facts.pop(field, None)
            for cell, rule in zip(v.findings[workflow.name][place], all_rules, strict=True):
                belief[cell] = rules.seen_to_fire(rule.code, facts, desk.parameters)
            for cell, term in zip(v.due[workflow.name][place], workflow.terms, strict=True):
                if rules.fields_of_term(term) <= facts.keys():
                    belief[cell] = rules.term(term, facts, desk.parameters) > 0

    def _write(self, episode: Episode, call: Call) -> str:
        v, belief, desk = self.v, episode.belief, episode.desk
        case, workflow = Case(v, episode), self.d.writes[call.argument]
        pointer = call.pointer
        if workflow.kind and pointer < 0:
            return self.fail(episode, f"this account has no such {workflow.kind}")
        place = max(pointer, 0)
        if belief[v.written[call.argument][place]]:
            return self.fail(episode, "this change was made before")
        row = row_of(v, desk.account, workflow.kind, pointer)
        facts = {
            "factors": case.factors,
            "confirmed": belief[v.confirmed[call.argument][place]],
            "auth_level": case.needed,
        }
        needed = {**desk.parameters, "auth_level": max(case.needed, workflow.factors)}
        for code in self.d.rules.broken("write", facts, needed):
            case.violate(code)
        request = case.request
        asked_for = (
            workflow.name == case.workflow.name
            and row == request.row
            and request.decision.effect == ALLOW
            and (not workflow.details or call.detail == request.detail)
        )
        if not asked_for:
            case.violate("wrote_what_was_not_asked")
        episode.diff.update(difference(workflow, row, call.detail))
        belief[v.written[call.argument][place]] = belief[v.wrote] = 1
        desk.decided_right |= asked_for
        number = self.records.text(workflow.kind, row, workflow.kind or self.d.account.key)
        episode.note(workflow.tool, number)
        return answer_json(
            **{workflow.kind or self.d.account.name: number, workflow.says or "done": True}
        )

    def _transfer(self, episode: Episode) -> str:
        case = Case(self.v, episode)
        episode.end = "transferred"
        case.desk.transferred = True
        right = case.request.decision.effect == TRANSFER and case.deciding
        case.desk.decided_right |= right
        episode.note("transfer_to_human", "right" if right else "wrong")
        return answer_json(transferred=True)
