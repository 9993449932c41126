"""The batched desk beside the plain one: 512 rows, the same actions, everything compared."""

from collections import Counter

import numpy as np
import pytest

from convgym.domains.customer_service.batch import ENDS, BatchedCustomerService, Tasks
from convgym.domains.customer_service.desk import CustomerServiceDesk
from convgym.domains.customer_service.rules import VIOLATIONS
from convgym.domains.customer_service.vocabulary import ACTIONS, LAYOUT, USER_ACTS, U
from convgym.engine import keys
from convgym.engine.acts import CHAT, EXPLAIN, FIRST_TOOL, TELL, UserTurn
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.policies.scripted import KeywordPolicy, OraclePolicy, Sight, SlotFillingPolicy
from convgym.users.agenda import LONG_WAIT, NOTHING, SURE, AgendaUser, UserState
from convgym.users.agenda_batch import BatchedAgendaUser, draw_personas, rows_of
from convgym.users.decisions import (
    LOG_UNIT,
    POINTS,
    SIGMOID,
    TILT_UNIT,
    DecisionModel,
    row_of,
)
from convgym.users.persona import HUNDRED, TRAITS, Levels, draw_levels, hardened

ROWS, MAX_TURNS, ROW_STEPS = 512, 20, 10_000
DESK = CustomerServiceDesk()
SPLITS = ("train", "validation", "test")
SCALES = np.array([DESK.scales.get(name, 1.0) for name in LAYOUT])
OF_ONE_TURN = {"decisions", "log_prob"}  # the turn holds them
OF_TEXT = {"promised", "explained"}  # no act promises, nor is anything said beside an explanation
USER_RECORD = sorted(set(UserState.__slots__) - OF_ONE_TURN - OF_TEXT - {"knowledge"})
DESK_RECORD = ("heard", "asked_to_confirm", "decided_right", "transferred")
LEAVING = [ACTIONS[name] for name in ("transfer_to_human", "end_conversation", "close")]
KIND = np.array([action.kind for action in ACTIONS.actions])
IS_TERM = np.array([action.kind == TELL and action.pointer < 0 for action in ACTIONS.actions])
IS_TOOL = KIND >= FIRST_TOOL
IS_TOOL[LEAVING] = False
QUESTIONING = DecisionModel(
    {"ask_why": 0.9, "ask_meaning": 0.9, "doubt": 0.8, "ask_next": 0.3}
    | {"look_up": 0.9, "false_claim": 0.9, "leave": 0.01, "close_now": 0.05, "bye": 0.1}
)
"""A user with whom what is rare is not."""


def levels_of(key: int, number: int) -> Levels:
    """Drawn, extreme in every trait, or hardened fully or in part."""
    kind, drawn = number // len(SPLITS) % 5, draw_levels(key)
    if kind == 1:
        return tuple(HUNDRED * (key >> trait & 1) for trait in range(len(TRAITS)))
    return hardened(drawn, (50, 50, 0, 100, 73)[kind])


def plain_episode(number: int, engine: Engine) -> Episode:
    """The `number`-th conversation of a run, at its opening."""
    key = keys.child(2026, number)
    task = DESK.task(SPLITS[number % 3], number % 2000)
    episode = Episode(task, key, key, LAYOUT.row())
    DESK.open(episode, levels_of(key, number))
    engine.open(episode)
    return episode


class Twins:
    """The same conversations in both engines; those that ended are begun anew on request."""

    def __init__(self, model: DecisionModel | None = None) -> None:
        self.engine = Engine(DESK, AgendaUser(U, model), MAX_TURNS)
        self.plain = [plain_episode(number, self.engine) for number in range(ROWS)]
        self.begun = ROWS
        self.turns: list[tuple[int, UserTurn]] = []
        """Of the last step: agent turns without a word before, and what the user said then."""
        self.rare: Counter[str] = Counter()
        """Since the beginning, what `note` counts."""
        self.batch = BatchedCustomerService(ROWS, MAX_TURNS)
        self.batch.user = BatchedAgendaUser(U, model)
        self.batch.open(*self.openings(range(ROWS)))

    def openings(self, rows):
        plain = [self.plain[row] for row in rows]
        user_keys = np.array([episode.user_key for episode in plain], dtype=np.uint64)
        personas = np.array([episode.user.persona for episode in plain])
        return [episode.task for episode in plain], user_keys, personas

    def going(self) -> list[int]:
        return [row for row, episode in enumerate(self.plain) if not episode.end]

    def renew(self) -> None:
        ended = [row for row, episode in enumerate(self.plain) if episode.end]
        for row in ended:
            self.plain[row] = plain_episode(self.begun, self.engine)
            self.begun += 1
        if ended:
            self.batch.reopen(np.array(ended), *self.openings(ended))

    def step(self, actions) -> None:
        self.turns.clear()
        for row in self.going():
            plain = self.plain[row]
            silent, before = plain.turn - plain.user.heard_turn, plain.user.copy()
            self.engine.apply(plain, DESK.turn(plain, int(actions[row])))
            if plain.user_turn:
                self.turns.append((silent, plain.user_turn))
                self.note(before, KIND[actions[row]], plain)
        self.batch.step(actions)

    def note(self, before: UserState, kind: int, plain: Episode) -> None:
        """Count what few conversations come to."""
        question, user = before.question, plain.user
        looks, sure = before.owed >= 0 and user.holding > 0, user.question == SURE
        self.rare["looks up after an explanation"] += bool(looks and kind == EXPLAIN)
        self.rare["doubts with a question open"] += question not in (NOTHING, SURE) and sure
        self.rare["stays unsure"] += question == SURE and sure
        self.rare["is given time"] += bool(before.holding and kind == CHAT)
        self.rare["content, says yes"] += before.satisfied and U["affirm"] in plain.user_turn.acts

    def compare(self) -> None:
        e, turns = self.batch.episodes, [episode.user_turn for episode in self.plain]
        belief = np.array([np.frombuffer(episode.belief, np.uint8) for episode in self.plain])
        different = np.argwhere(e.belief != belief)
        assert not [(row, LAYOUT.names[cell]) for row, cell in different]
        assert np.array_equal(self.batch.masks(), ACTIONS.mask(belief))
        said = [[act for act in acts if act >= 0] for acts in e.user.acts.tolist()]
        assert said == [list(turn.acts) if turn else [] for turn in turns]
        log_probs = [units * LOG_UNIT for units in e.user.log_prob.tolist()]
        assert log_probs == [turn.log_prob if turn else 0.0 for turn in turns]
        for name in ("turn", "errors", "violations", "truncated"):
            assert getattr(e, name).tolist() == [getattr(plain, name) for plain in self.plain]
        assert [ENDS[end] for end in e.end] == [plain.end for plain in self.plain]
        for name in USER_RECORD:
            mine = np.array([getattr(plain.user, name) for plain in self.plain])
            assert np.array_equal(getattr(e.user, name), mine), name
        for name in DESK_RECORD:
            mine = np.array([getattr(plain.desk, name) for plain in self.plain])
            assert np.array_equal(getattr(e, name), mine), name
        verdicts = zip(*(column.tolist() for column in self.batch.grade()), strict=True)
        assert list(verdicts) == [DESK.grade(plain)[:3] for plain in self.plain]


def random_legal(mask, belief, rng) -> int:
    return int(rng.choice(np.flatnonzero(mask)))


def staying(mask, belief, rng) -> int:
    """Random and legal, but never leaves, so that long and strange conversations arise."""
    mask = mask.copy()
    mask[LEAVING] = 0
    return int(rng.choice(np.flatnonzero(mask)))


def anything(mask, belief, rng) -> int:
    return int(rng.integers(len(ACTIONS)))


def scripted(policy):
    return lambda mask, belief, rng: ACTIONS[policy.choose(Sight(belief * SCALES))]


def busy(mask, belief, rng) -> int:
    """Calls one tool after the other, and only now and then speaks."""
    tools = np.flatnonzero(mask & IS_TOOL)
    if not len(tools) or rng.random() < 0.1:
        return staying(mask, belief, rng)
    return int(rng.choice(tools))


DRIVERS = {
    "oracle": scripted(OraclePolicy()),
    "slot-filling": scripted(SlotFillingPolicy()),
    "keyword": scripted(KeywordPolicy()),
    "random-legal": random_legal,
    "staying": staying,
    "anything": anything,
    "busy": busy,
}
MIXED, SHARES = list(DRIVERS), [0.4, 0.2, 0.1, 0.05, 0.19, 0.05, 0.01]


def askew(mask, belief, rng) -> int:
    """Fills slots, but often looks at the order beside the one that is meant, and tells of it."""
    terms, chance = np.flatnonzero(mask & IS_TERM), rng.random()
    if len(terms) and chance < 0.2:
        return int(rng.choice(terms))
    if chance < 0.6:
        return staying(mask, belief, rng)
    name = ACTIONS.names[DRIVERS["slot-filling"](mask, belief, rng)]
    return ACTIONS[f"{name[:-1]}{(int(name[-1]) + 1) % 3}" if name[-1].isdigit() else name]


def mixture(mask, belief, rng) -> int:
    """Another driver at every step, the competent ones most of the time."""
    return DRIVERS[rng.choice(MIXED, p=SHARES)](mask, belief, rng)


DRIVERS |= {"askew": askew, "mixture": mixture}


def play(driver, row_steps: int = ROW_STEPS, model: DecisionModel | None = None):
    """Both engines for `row_steps`, compared after each step; yields the twins after each."""
    twins, rng, done = Twins(model), np.random.default_rng(7), 0
    twins.compare()
    while done < row_steps:
        masks, belief = twins.batch.masks(), twins.batch.episodes.belief
        actions = np.array([driver(masks[row], belief[row], rng) for row in range(ROWS)])
        done += len(twins.going())
        twins.step(actions)
        twins.compare()
        yield twins
        if len(twins.going()) < ROWS / 2:  # until then the ended rows must stay as they are
            twins.renew()
            twins.compare()


@pytest.mark.parametrize("name", DRIVERS)
def test_the_batch_equals_the_plain_engine(name):
    for _ in play(DRIVERS[name]):
        pass


def test_it_does_under_other_parameters():
    chances = (0.0, 0.1, 0.37, 0.62, 0.9, 1.0)
    base = {point.name: chances[number % 6] for number, point in enumerate(POINTS)}
    for _ in play(mixture, ROW_STEPS // 2, DecisionModel(base)):
        pass


def test_the_comparison_meets_everything_that_can_happen():
    """Acts, choices, endings, violations and successes of all kinds occur in what is compared."""
    turns = [(0, plain.user_turn) for plain in Twins().plain]
    ends, rare, violations, successes = Counter(), Counter(), 0, 0
    drivers = (askew, mixture, busy, random_legal, DRIVERS["oracle"])
    for driver, model in ((mixture, QUESTIONING), *((driver, None) for driver in drivers)):
        for twins in play(driver, model=model):
            turns += twins.turns
            e = twins.batch.episodes
            ends.update(e.end.tolist())
            violations |= int(np.bitwise_or.reduce(e.violations))
            successes += int(twins.batch.grade()[0].sum())
        rare += twins.rare
    said = Counter(act for _, turn in turns for act in turn.acts)
    unsaid = {USER_ACTS[act] for act in range(len(USER_ACTS)) if said[act] < 5}
    assert unsaid == {"ask_back"}  # it answers what was not understood, which is text
    made = Counter((point, yes) for _, turn in turns for point, _, yes in turn.decisions)
    assert len(made) == 2 * len(POINTS) and min(made.values()) >= 5
    assert len(rare) == 5 and min(rare.values()) > 0, rare
    assert sum(silent >= LONG_WAIT for silent, _ in turns) > 100
    assert set(ends) == set(range(len(ENDS)))
    assert violations == 2 ** len(VIOLATIONS) - 1
    assert successes > 100


def test_a_copy_of_the_episodes_can_be_put_back():
    twins, everyone = Twins(), np.arange(ROWS)
    saved = twins.batch.episodes[everyone]
    actions = np.full(ROWS, ACTIONS["ask_intent"])
    twins.batch.step(actions)
    twins.batch.step(actions)
    twins.batch.episodes[everyone] = saved
    twins.step(actions)
    twins.compare()


def test_what_is_handed_in_stays_as_it_is():
    """A table of tasks serves many openings; a new conversation must not be written into it."""
    twins = Twins()
    tasks, user_keys, personas = twins.openings(range(ROWS))
    table, before = Tasks(tasks), Tasks(tasks)
    twins.batch.open(table, user_keys, personas)
    twins.batch.reopen(np.array([0]), table[np.array([9])], user_keys[9:10], personas[9:10])
    assert user_keys[0] == twins.plain[0].user_key
    assert np.array_equal(table.goal, before.goal)
    assert np.array_equal(table.knowledge.ladders, before.knowledge.ladders)


def test_neighbours_do_not_matter():
    """One row alone, any row of many: the same."""
    twins, row = Twins(), np.array([77])
    alone = BatchedCustomerService(1, MAX_TURNS)
    alone.open(*twins.openings(row))
    rng = np.random.default_rng(1)
    for _ in range(10):
        masks = twins.batch.masks()
        actions = np.array([staying(mask, None, rng) for mask in masks])
        twins.batch.step(actions)
        alone.step(actions[row])
        assert np.array_equal(alone.episodes.belief, twins.batch.episodes.belief[row])
        assert np.array_equal(alone.episodes.user.acts, twins.batch.episodes.user.acts[row])


def test_personas_of_many_keys():
    user_keys = [keys.child(3, number) for number in range(100)]
    drawn = draw_personas(np.array(user_keys, dtype=np.uint64))
    assert drawn.tolist() == [list(draw_levels(key)) for key in user_keys]


def test_rows_of_many_logits():
    logits = np.arange(-10 * TILT_UNIT, 10 * TILT_UNIT)
    rows = rows_of(logits)
    assert rows.tolist() == [row_of(logit) for logit in logits.tolist()]
    assert rows[0] == 0 and rows[-1] == len(SIGMOID) - 1
