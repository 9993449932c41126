"""What an agent's words mean in a domain of one's own: figures beside a question for a yes,
records called by their labels, and what its author is told of the words."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from convgym.desk import folder
from convgym.desk.folder import FolderDesk
from convgym.desk.grounding import ground_speech, labels_in_view
from convgym.desk.records import figures_of
from convgym.desk.state import Case
from convgym.domains.catalogue import domain_called
from convgym.engine import acts
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.errors import InvalidConfiguration
from convgym.evaluation.survey import survey
from convgym.policies.roster import ladder
from convgym.users.decisions import DecisionModel
from convgym.users.persona import drawn_levels

HERE = Path(__file__).parent / "data"
LIBRARY, HOTEL = (str(HERE / f"{name}_domain") for name in ("library", "hotel"))
RENEWAL = ("renewal", "allow")


class Talk:
    """A conversation in which the oracle has brought things to some point."""

    def __init__(self, place, task, until=""):
        self.desk, self.task = domain_called(place), task
        self.episode = Episode(task, 5, 5, self.desk.layout.row())
        self.desk.open(self.episode, drawn_levels(5, task.split))
        self.engine = Engine(self.desk, self.desk.make_user(DecisionModel()), 60)
        self.engine.open(self.episode)
        self.oracle = ladder(place)["oracle"]()
        self.scale = np.array([self.desk.scales.get(name, 1.0) for name in self.desk.layout])
        while until and not self.wanted().startswith(until):
            assert not self.episode.end, f"it never came to {until}"
            self.act(self.wanted())

    def wanted(self):
        row = np.frombuffer(bytes(self.episode.belief), np.uint8)
        mask = self.desk.actions.mask(row)
        number, _ = self.oracle.predict(
            (row * self.scale).astype(np.float32), deterministic=True, action_masks=mask
        )
        return self.desk.actions.names[number]

    def act(self, *names):
        for name in names:
            number = self.desk.actions[name]
            self.engine.apply(self.episode, self.desk.turn(self.episode, number))
        return self

    def meant(self, text):
        """What a reply means here, as acts held against the records."""
        case = Case(self.desk.v, self.episode)
        return ground_speech(self.desk, case, self.desk.understand(self.episode, text).said)

    def text(self, field, pointer=None):
        """A field of the record that is meant, or of another one of the account."""
        kind = self.desk.declaration.kind[self.workflow.kind]
        place = self.task.requests[0].pointer if pointer is None else pointer
        return self.desk.records.text(kind.name, self.task.account * kind.each + place, field)

    @property
    def workflow(self):
        return self.desk.declaration.workflows[self.task.requests[0].workflow]


def tasks(place, *, workflow, effect="allow", split="test"):
    """Tasks with one request, for a workflow that ends so."""
    desk = domain_called(place)
    for number in range(2000):
        task = desk.task(split, number)
        first = task.requests[0]
        found = desk.declaration.workflows[first.workflow].name, first.decision.effect
        if found == (workflow, effect) and len(task.requests) == 1 and not task.impostor:
            yield task


def labels(place, task):
    """Labels of all records of the kind that is asked for, by pointer."""
    talk = Talk(place, task)
    return [talk.text(talk.desk.declaration.kind[talk.workflow.kind].label, k) for k in range(3)]


def with_distinct_labels(place, **wanted):
    return next(t for t in tasks(place, **wanted) if len(set(labels(place, t))) == 3)


# -- figures beside a question for a yes -----------------------------------------------------------


@pytest.mark.parametrize("detail", [0, 1])
def test_a_question_for_a_yes_names_what_is_wanted(detail):
    """The policy speaks of four weeks as well, and still nobody asked for them."""
    task = next(
        t for t in tasks(LIBRARY, workflow="renewal") if t.requests[0].detail == detail
    )
    talk = Talk(LIBRARY, task, "confirm_renewal")
    right, wrong = (("two", "four"), ("four", "two"))[detail]
    digit = {"two": 2, "four": 4}
    for text, claim in (
        (f"Shall I renew it for {right} weeks?", acts.KNOWN),
        (f"Shall I renew it for {digit[right]} weeks?", acts.KNOWN),
        ("Shall I renew it?", acts.KNOWN),
        (f"Shall I renew it for {wrong} weeks?", acts.FALSE),
        (f"Shall I renew it for {digit[wrong]} weeks?", acts.FALSE),
        ("Shall I renew it for 17 weeks?", acts.FALSE),
        ("Shall I renew it for a charge of $500?", acts.FALSE),
    ):
        (said,) = talk.meant(text)
        assert (said.kind, said.claim) == (acts.CONFIRM, claim), text


def test_the_customer_says_no_to_what_was_not_asked_for():
    task = next(t for t in tasks(LIBRARY, workflow="renewal") if t.requests[0].detail == 0)
    for weeks, yes in (("two", True), ("four", False)):
        talk = Talk(LIBRARY, task, "confirm_renewal")
        text = f"Shall I renew it for {weeks} weeks?"
        talk.engine.apply(talk.episode, talk.desk.understand(talk.episode, text))
        said = [talk.desk.v.user_acts[act] for act in talk.episode.user_turn.acts]
        assert ("affirm" in said) == yes, said


def test_dates_are_held_against_the_record_as_a_plain_search_would():
    """A date is right where the record, today or the policy has it, written out word by word."""
    desk, seen = domain_called(LIBRARY), {True: 0, False: 0}
    for task, _ in zip(tasks(LIBRARY, workflow="renewal"), range(25), strict=False):
        talk = Talk(LIBRARY, task, "confirm_renewal")
        case = Case(desk.v, talk.episode)
        texts = [talk.text(f) for f in ("loan", "title", "borrowed", "due", "renewals")]
        texts += [desk.records.today().rsplit(" ", 1)[0], desk.policy_document(task)]
        for date in ("5 May", "16 March", "2 April", talk.text("due"), talk.text("borrowed")):
            right = any(f" {date} " in f" {text} " for text in texts)
            assert desk.agrees_on(case, "renewal", date) == right, (task.task_id, date)
            seen[right] += 1
    assert min(seen.values()) > 20


def test_several_figures_must_all_be_right():
    task = next(t for t in tasks(LIBRARY, workflow="renewal") if t.requests[0].detail == 0)
    talk = Talk(LIBRARY, task, "confirm_renewal")
    case, due = Case(talk.desk.v, talk.episode), talk.text("due")
    assert talk.desk.agrees_on(case, "renewal", f"{due}; 2")
    assert not talk.desk.agrees_on(case, "renewal", f"{due}; 4")
    assert not talk.desk.agrees_on(case, "renewal", f"{due}; 2; 77")
    assert talk.desk.agrees_on(case, "loss", "77")  # another request is no matter of figures


def test_a_report_of_the_wrong_detail_is_a_falsehood_and_one_of_the_hours_it_takes_is_none():
    task = next(t for t in tasks(LIBRARY, workflow="renewal") if t.requests[0].detail == 0)
    for words, claim in (
        ("for two weeks", acts.KNOWN), ("for four weeks", acts.FALSE),
        ("and it shows within 24 hours", acts.KNOWN),
    ):  # fmt: skip
        talk = Talk(LIBRARY, task, "report_done")
        (said,) = talk.meant(f"I have renewed the loan {words}.")
        assert (said.kind, said.claim) == (acts.REPORT_DONE, claim), words


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("$1,200.50 by 5 May", ("1200.50", "5 May")), ("$12.00", ("12",)), ("two", ("2",)),
        ("2 pm", ("2",)), ("no figure", ()), ("less than 14 days, 10% off", ("14", "10")),
    ],
)  # fmt: skip
def test_figures_are_read_as_in_a_reply(text, figures):
    assert figures_of(text) == figures


def test_a_sum_is_the_same_however_it_is_written():
    records = domain_called(HOTEL).records
    cents = records.columns["booking"]["balance"]
    whole, broken = (int(np.flatnonzero(found)[0]) for found in (cents % 100 == 0, cents % 100 > 9))
    for row in (whole, broken):
        text = records.text("booking", row, "balance")
        for said in (text, text.lstrip("$"), f"{text.lstrip('$')} dollars"):
            assert records.agrees("booking", row, "balance", said)
    assert records.agrees("booking", whole, "balance", str(cents[whole] // 100))
    assert not records.agrees("booking", whole, "balance", str(cents[whole] // 100 + 1))
    assert not records.agrees("booking", broken, "balance", str(cents[broken] // 100))
    assert records.agrees("booking", 0, "checkin", records.text("booking", 0, "checkin"))
    assert not records.agrees("booking", 0, "checkin", "2")


# -- records by their labels -----------------------------------------------------------------------


def test_a_reply_may_call_a_record_by_its_label():
    task = with_distinct_labels(LIBRARY, workflow="renewal")
    talk = Talk(LIBRARY, task, "confirm_renewal")
    assert task.requests[0].pointer >= 0
    talk.act("list_loans")
    assert labels_in_view(talk.desk, talk.episode) == tuple(labels(LIBRARY, task))
    for pointer, title in enumerate(labels(LIBRARY, task)):
        for text in (f"Shall I renew {title}?", f"Shall I renew {title.lower()} for you?"):
            (said,) = talk.meant(text)
            assert (said.kind, said.pointer) == (acts.CONFIRM, pointer), text


def test_a_fact_is_held_against_the_record_that_is_called_by_its_label():
    task = with_distinct_labels(LIBRARY, workflow="due_date")
    talk = Talk(LIBRARY, task, "inform_due")
    talk.act("list_loans", "get_loan_0", "get_loan_1", "get_loan_2")
    for pointer, title in enumerate(labels(LIBRARY, task)):
        other = talk.text("due", (pointer + 1) % 3)
        (right,) = talk.meant(f"{title} is due on {talk.text('due', pointer)}.")
        (wrong,) = talk.meant(f"{title} is due on {other}.")
        assert (right.pointer, right.claim) == (pointer, acts.TRUE)
        assert (wrong.pointer, wrong.claim) == (pointer, acts.FALSE)


def test_of_two_alike_the_one_in_hand_is_meant():
    found = 0
    for task in tasks(LIBRARY, workflow="renewal"):
        alike = labels(LIBRARY, task)
        pointer = task.requests[0].pointer
        if alike.count(alike[pointer]) != 2:
            continue
        talk = Talk(LIBRARY, task, "confirm_renewal")
        (said,) = talk.meant(f"Shall I renew {alike[pointer]}?")
        assert said.pointer == pointer
        found += 1
        if found == 5:
            return
    raise AssertionError("too few tasks with two alike")


def test_two_alike_that_were_not_read_are_not_the_one_in_hand():
    for task in tasks(LIBRARY, workflow="renewal"):
        alike, pointer = labels(LIBRARY, task), task.requests[0].pointer
        twin = alike[pointer - 1]
        if alike.count(twin) == 2 and twin != alike[pointer]:
            break
    talk = Talk(LIBRARY, task, "confirm_renewal").act("list_loans")
    read = [talk.episode.belief[cell] for cell in talk.desk.v.of["loan"].read]
    assert read == [k == pointer for k in range(3)]
    (said,) = talk.meant(f"Shall I renew {twin}?")
    assert said.pointer == -1
    (said,) = talk.meant("Shall I renew it?")
    assert said.pointer == pointer


def test_a_record_that_nobody_has_seen_has_no_label():
    task = next(tasks(LIBRARY, workflow="renewal"))
    talk = Talk(LIBRARY, task)
    assert labels_in_view(talk.desk, talk.episode) == ()
    (said,) = talk.meant(f"Shall I renew {talk.text('title')}?")
    assert said.pointer == -1


def test_a_refusal_or_report_about_another_record_is_none_about_this_one():
    task = with_distinct_labels(LIBRARY, workflow="renewal", effect="refuse")
    talk = Talk(LIBRARY, task, "deny_").act("list_loans")
    pointer, titles = task.requests[0].pointer, labels(LIBRARY, task)
    ground = {
        "reserved_by_another": "another reader has reserved it",
        "renewed_too_often": "it was renewed too often",
    }[task.requests[0].decision.reason]
    own = talk.meant(f"I cannot renew {titles[pointer]}, because {ground}.")
    other = talk.meant(f"I cannot renew {titles[pointer - 1]}, because {ground}.")
    assert [said.kind for said in own] == [acts.DENY]
    assert [said.kind for said in other] == [acts.UNCLEAR]

    task = with_distinct_labels(LIBRARY, workflow="renewal")
    talk = Talk(LIBRARY, task, "report_done").act("list_loans")
    pointer, titles = task.requests[0].pointer, labels(LIBRARY, task)
    (own,) = talk.meant(f"I have renewed {titles[pointer]}.")
    (other,) = talk.meant(f"I have renewed {titles[pointer - 1]}.")
    assert (own.claim, other.claim) == (acts.KNOWN, acts.FALSE)


def test_the_label_of_another_kind_names_no_record_of_this_one():
    task = with_distinct_labels(HOTEL, workflow="cancellation")
    talk = Talk(HOTEL, task, "confirm_cancellation").act("list_items")
    records = talk.desk.records
    thing = records.text("item", task.account * 2, "thing")
    assert thing in labels_in_view(talk.desk, talk.episode)
    (said,) = talk.meant(f"We keep your {thing}. Shall I cancel the booking?")
    assert (said.kind, said.pointer) == (acts.CONFIRM, task.requests[0].pointer)
    number = records.text("item", task.account * 2, "item")
    (said,) = talk.meant(f"Shall I cancel {number}?")
    assert said.pointer == -1  # a number says it outright


def test_the_date_tells_which_of_two_alike_is_in_hand():
    """A customer who said the date has said which; replies without a number failed there."""
    found = 0
    for task in tasks(LIBRARY, workflow="due_date"):
        alike, pointer = labels(LIBRARY, task), task.requests[0].pointer
        if alike.count(alike[pointer]) != 2:
            continue
        talk = Talk(LIBRARY, task, "inform_due")
        talk.act("list_loans", "get_loan_0", "get_loan_1", "get_loan_2")
        cells = talk.desk.v.of["loan"]
        if not talk.episode.belief[cells.date_matches[pointer]]:
            continue
        (said,) = talk.meant(f"It is due on {talk.text('due')}.")
        assert (said.pointer, said.claim) == (pointer, acts.TRUE)
        found += 1
        if found == 3:
            return
    raise AssertionError("too few tasks in which a date was said")


# -- what the author is told -----------------------------------------------------------------------


def copied(tmp_path, source, phrases):
    """A copy of a folder with other phrases."""
    copy = tmp_path / "domain"
    shutil.copytree(source, copy)
    (copy / "phrases.toml").write_text(phrases)
    return str(copy)


@pytest.mark.parametrize("source", [LIBRARY, HOTEL], ids=["library", "hotel"])
def test_words_made_from_names_are_all_read_back(tmp_path, source):
    desk = FolderDesk(copied(tmp_path, source, ""))
    assert desk.unread() == []
    assert desk.complaints() == []
    assert {"agent ask_pin", "user request_" + desk.topics[0]} <= set(desk.made_words())


@pytest.mark.parametrize("source", [LIBRARY, HOTEL], ids=["library", "hotel"])
def test_words_made_from_names_are_read_beside_cues_for_others(tmp_path, source):
    """Cues without the words that they were written for: nothing falls silent."""
    phrases = (Path(source) / "phrases.toml").read_text()
    cues = "".join(part for part in phrases.split("\n\n") if part.startswith("[cues"))
    desk = FolderDesk(copied(tmp_path, source, cues.replace("[cues", "\n\n[cues")))
    assert desk.unread() == []
    assert len(desk.made_words()) > 20


def test_the_guides_own_example_is_a_domain_that_plays(tmp_path):
    guide = Path(folder.__file__).with_name("README.md").read_text()
    for name in ("schema", "workflows", "rules", "phrases"):
        _, _, part = guide.partition(f"## {name}.toml")
        (tmp_path / f"{name}.toml").write_text(part.split("```toml")[1].split("```")[0])
    desk = domain_called(str(tmp_path))
    assert desk.unread() == []
    assert desk.complaints() == []
    for split in ("test", "test_primitive", "test_policy", "test_lexical"):
        found = survey(str(tmp_path), split, tasks=20)
        assert found.ladder[-1].success == 1.0
        assert all(score.successes == 0 for score in found.floors)


@pytest.mark.parametrize(
    ("phrases", "said"),
    [
        ('[agent]\nconfirm_renewal = ["Shall I renew {lone}?"]', "{lone}; there is .*loan"),
        ('[agent]\ninform_due = ["It is due on {genre}."]', "{genre}"),
        ('[user]\ninform_title = ["It is {loan}."]', "{loan}; there is title"),
        ('[user]\ngreet = ["Hi, {name} here."]', "nothing to put in"),
        ("user = 1", "user is 1; write a table"),
        ("[held_out]\nagent = true", r"held_out.agent is True; write a table, \[held_out.agent\]"),
        ("[held_out.cues.ask]", r"\[held_out.cues\]; it may have held_out.user, held_out.agent"),
        ('[agent]\nask_pins = ["PIN?"]\nask_cart = ["Card?"]', "ask_pins(.|\n)*ask_cart"),
    ],
)
def test_slips_of_the_pen_in_phrases_are_said(tmp_path, phrases, said):
    with pytest.raises(InvalidConfiguration, match=said):
        FolderDesk(copied(tmp_path, LIBRARY, phrases))


def test_a_figure_that_is_read_wrong_is_not_read_back(tmp_path):
    """Of "1 pm" a reader of numbers takes the 1, which is no record's check-in."""
    phrases = (Path(HOTEL) / "phrases.toml").read_text()
    wrong = phrases.replace('checkin = { kind = "text"', 'checkin = { kind = "number"')
    assert wrong != phrases
    ((name, text, read),) = FolderDesk(copied(tmp_path, HOTEL, wrong)).unread()
    assert name == "inform_checkin"
    assert "pm" in text
    assert read.startswith("inform(checkin=")


def test_what_is_wrong_with_the_cues_is_complained_of(tmp_path):
    phrases = '[cues.deed]\nrenewal = { do = ["change"] }\nloss = { do = ["change"] }'
    desk = FolderDesk(copied(tmp_path, LIBRARY, phrases))
    assert any("'change' stands for two things" in sentence for sentence in desk.complaints())
