"""How labelled texts of technical support are read, and the moments at which a trick is tried.

    rows of tests/data ─► read in their situation ─► Reading: exact share, macro-F1, abstention

    the oracle's conversations ─► stopped before an act that weighs ─► say a trick there instead
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from support_driven import ABLE, DESK, Certain, act_of, begin, said
from support_words import filled, task_of

from convgym.domains.technical_support.dialogue import (
    ACTIONS,
    LAYOUT,
    SAW,
    STEP_NAMES,
    USER_ACTS,
)
from convgym.domains.technical_support.labels import is_label, labels
from convgym.domains.technical_support.physics import CHECKS_OF, VALUES_OF
from convgym.domains.technical_support.user_understanding import understand
from convgym.domains.technical_support.view import slot_and_value
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    KINDS,
    OPERATIONS,
    SERVICE,
    VALUE,
)
from convgym.domains.technical_support.wording import PACKAGE
from convgym.engine import acts
from convgym.evaluation.labelled import Reading
from convgym.language.phrases import packaged, read_tables
from convgym.policies.technical_support import OraclePolicy

DATA = Path(__file__).parent / "data"
ENOUGH = 8
"""Examples that an act needs to count in the macro average."""

# -- labelled texts --------------------------------------------------------------------------------


def act_of_message(label):
    """`see_power_light_red` is of the act `see`; `request_slow` and `inform_pin` are alike."""
    for family in ("see", "request", "inform"):
        if label.startswith(f"{family}_"):
            return family
    return label


def replies(name):
    """The agent's replies of a labelled file, as they are read."""
    return Reading.of(DATA / name, lambda row: labels(row["text"]), is_label)


def messages(name, key=act_of_message):
    """The customer's messages of a labelled file, as they are read in their situation."""

    def read(row):
        task = task_of(row["kind"], row["symptom"])
        return understand(filled(row["text"], task), task, tuple(row["asked"]))[0]

    return Reading.of(DATA / name, read, USER_ACTS.__contains__, key=key)


def user_wordings(part):
    """(act, text, acts read) of every wording of the customer, in the situation it is said in."""
    phrases = read_tables(packaged(PACKAGE, "user_phrases.toml"))[part]
    for name, by_register in phrases.items():
        texts = (text for texts in by_register.values() for text in texts)
        for number, text in enumerate(texts):
            task, asked = _situation(name, number)
            slot, value = slot_and_value(task, USER_ACTS.index(name))
            spoken = text.replace("{" + slot + "}", value) if slot else text
            yield name, spoken, understand(spoken, task, asked)[0]


def _situation(name, number):
    """A task and what was asked for last, in which a customer says such a thing."""
    act = USER_ACTS.index(name)
    if act in SAW:
        look, value = SAW[act]
        kinds = [k for k, shown in enumerate(VALUES_OF) if value in shown[look]]
        kinds = [k for k in kinds if look in CHECKS_OF[k]]
        return task_of(KINDS[kinds[number % len(kinds)]]), (CHECKS[look].name,)
    if name.startswith("request_"):
        symptom = name.removeprefix("request_")
        kind = next(k for k, shown in enumerate(VALUES_OF) if VALUE[symptom] in shown[SERVICE])
        return task_of(KINDS[kind], symptom), ()
    return task_of("router"), ("restart",) if name in ("did_it", "not_done") else ()


# -- moments ---------------------------------------------------------------------------------------

WEIGHTY = ("do_", "inform_", "confirm_", "deny_", "offer_", "report_done")
"""How the acts begin that a conversation turns on."""
_CELLS = [
    place
    for place, cell in enumerate(LAYOUT)
    if cell.startswith(("told_", "confirmed_", "denied_", "offered_", "age_"))
    or cell in ("agreed_reset", "unreported")
    or cell in [f"asked_{step}" for step in STEP_NAMES]
]
_SPOKEN = {"affirm", "did_it", "accept_alternative", "accept_refusal"}
"""What a customer says only to what weighs."""
_TASKS = {"test": 400, "test_policy": 200}


class Moment(NamedTuple):
    """A conversation that has come to an act: the act's number, and what is to be said."""

    name: str
    number: int
    episode: object
    engine: object

    def after(self, turn):
        """The episode once this turn was taken in place of the act."""
        episode = self.episode.snapshot()
        self.engine.apply(episode, turn)
        return episode

    def credits(self, turn):
        """Whether the conversation then counts something that weighs, and holds nothing
        against the agent."""
        before, after = self.episode, self.after(turn)
        if after.violations != before.violations:
            return False
        return bool(
            any(after.belief[cell] != before.belief[cell] for cell in _CELLS)
            or _SPOKEN.intersection(said(after))
            or _desk(after) != _desk(before)
            or after.diff != before.diff
        )


def _desk(episode):
    desk = episode.desk
    return (
        desk.device, desk.written, desk.reported, desk.decided_right, desk.transferred,
        desk.asked_to_confirm,
    )  # fmt: skip


@cache
def moments():
    """One moment before each act that weighs and that the oracle comes to, by name.

    A report goes by the write that it is about. The customer is able, and does as it is asked.
    """
    user, found = DESK.make_user(Certain("accept")), {}
    for split, tasks in _TASKS.items():
        for number in range(tasks):
            episode, engine = begin(DESK.task(split, number), number, user, ABLE)
            policy = OraclePolicy()
            policy.reset(number)
            while not episode.end:
                act = act_of(policy, episode)
                name = _name(episode, act)
                if name.startswith(WEIGHTY) and name not in found:
                    found[name] = Moment(name, act, episode.snapshot(), engine)
                engine.apply(episode, DESK.turn(episode, act))
    return found


def _name(episode, act):
    action = ACTIONS.actions[act]
    if action.kind != acts.REPORT_DONE:
        return action.name
    return f"{action.name} {OPERATIONS[episode.desk.last_write].name}"
