"""A desk's tools: what fails at first, what is read and changed, and which record is meant."""

import json
from collections import Counter

import pytest
from desk_driven import (
    ACTIONS,
    CELL,
    DESK,
    PLAIN,
    RECORDS,
    D,
    Talk,
    V,
    facts_of,
    names_of,
    shape,
    task_like,
    tasks_like,
    user,
)

from convgym.desk.tasks import KNOWLEDGES
from convgym.desk.vocabulary import FIND, GET, LIST, TRANSFER_TO_HUMAN, VERIFY, WRITE
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.engine.engine import ERROR_BUDGET
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER
from convgym.language.tool_calls import RawCall
from convgym.users.persona import Persona

TOOLS = DESK._tasks.tools
every_tool = pytest.mark.parametrize("tool", TOOLS)


def begun(task):
    return Talk(task, 1, user(**PLAIN), Persona().levels)


def tool_of(name):
    """The tool that an act calls; empty for speech."""
    action = ACTIONS.actions[ACTIONS[name]]
    if action.kind < acts.FIRST_TOOL:
        return ""
    call = Call(action.kind, action.argument, action.pointer)
    return DESK._tools.name(call)


def about_to_use(tool, most=3):
    """Conversations in which the oracle is about to call a tool that will fail."""
    held_out = "charge" in tool or tool == "open_claim"

    def fails(task):
        return task.faults and TOOLS[task.faulty] == tool

    for task in tasks_like(fails, 60, ["test_primitive" if held_out else "train"], 8000):
        talk = begun(task)
        talk.until(lambda talk=talk: tool_of(talk.wanted()) == tool)
        if not talk.episode.end and most:
            most -= 1
            yield talk


# -- tools that fail -------------------------------------------------------------------------------


@every_tool
def test_a_failure_costs_a_turn_and_nothing_else(tool):
    met = 0
    for talk in about_to_use(tool):
        act, faults = talk.wanted(), talk.task.faults
        for left in range(faults, 0, -1):
            before, turn = bytes(talk.episode.belief), talk.episode.turn
            diff = dict(talk.episode.diff)
            talk.act(act)
            sentence = f"{tool} is not available at the moment; try again"
            assert talk.results == [{"error": sentence}]
            assert talk.episode.user_turn is None, "the customer does not hear of it"
            assert (talk.episode.turn, talk.episode.errors) == (turn + 1, 0)
            assert talk.episode.diff == diff and not talk.violations
            assert talk.episode.desk.faults == left - 1
            assert talk.cell("tool_failed")
            changed = {
                CELL.names[cell]
                for cell, (old, new) in enumerate(zip(before, talk.episode.belief, strict=True))
                if old != new
            }
            assert changed <= {"tool_failed", "turn"}
            assert talk.wanted() == act, "the oracle tries again"
        talk.act(act)
        assert not talk.cell("tool_failed") and "not available" not in str(talk.results)
        assert talk.served().grade.success
        assert talk.episode.errors == 0
        met += 1
    assert met


def test_only_the_tool_that_is_drawn_fails_and_only_so_often():
    failed = Counter()
    for task in tasks_like(lambda task: task.faults, 150):
        talk = begun(task).served()
        entries = [e.detail for e in talk.episode.ledger if e.event == "tool_failed"]
        assert set(entries) <= {TOOLS[task.faulty]} and len(entries) in (0, task.faults)
        failed[len(entries)] += 1
    assert failed[1] > 15 and failed[2] > 15
    for task in tasks_like(lambda task: not task.faults, 40):
        assert all(e.event != "tool_failed" for e in begun(task).served().episode.ledger)


@pytest.mark.parametrize("workflow", D.writes, ids=lambda workflow: workflow.name)
def test_reporting_what_a_failed_tool_has_not_done_is_a_falsehood(workflow):
    talk = next(iter(about_to_use(workflow.tool)))
    talk.act(talk.wanted())
    assert talk.cell("tool_failed") and not talk.cell("wrote")
    number = ACTIONS["report_done"]
    assert not ACTIONS.is_legal(talk.episode.belief, number)
    saved = talk.episode.snapshot()
    talk.apply(AgentTurn(said=(Said(acts.REPORT_DONE),)))
    assert talk.violations == {"told_a_falsehood"}
    assert "challenge_done" in talk.said
    assert not talk.served().grade.success
    talk.episode.restore(saved)
    talk.engine.apply(talk.episode, DESK.turn(talk.episode, number))
    assert talk.episode.errors == 1, "as an act it is not legal"
    assert not talk.violations


def test_a_call_in_words_fails_alike():
    """A fault waits for whoever calls the tool by its name; a malformed call is still an error."""
    talk = next(iter(about_to_use("find_customer")))
    email = RECORDS.text("", talk.task.account, "email")
    malformed = RawCall("find_customer", {"name": "Alice"})
    talk.apply(AgentTurn(calls=(malformed,)))
    assert talk.episode.errors == 1 and talk.episode.desk.faults == talk.task.faults
    good = RawCall("find_customer", {"email": email})
    for _ in range(talk.task.faults):
        talk.apply(AgentTurn(calls=(good,)))
        assert "not available" in talk.results[0]["error"] and talk.episode.errors == 1
    talk.apply(AgentTurn(calls=(good,)))
    assert talk.results[0]["customer"] == RECORDS.text("", talk.task.account, "name")
    assert talk.cell("found")


def test_whoever_gives_up_on_a_tool_that_fails_has_done_nothing():
    """The rules do not say that a tool must fail before a transfer; the change is still owed."""
    talk = next(iter(about_to_use("create_return")))
    talk.act(talk.wanted(), "transfer_to_human")
    assert not talk.grade.success


# -- twins -----------------------------------------------------------------------------------------


def twins_of(request):
    """Pointers of the records that would be described as this one is."""
    kind = D.workflows[request.workflow].kind
    if not kind:
        return []
    first, label = request.row - request.pointer, D.kind[kind].label
    wanted = RECORDS.text(kind, request.row, label)
    each = range(D.kind[kind].each)
    return [k for k in each if RECORDS.text(kind, first + k, label) == wanted]


@pytest.mark.parametrize(
    ("kind", "splits"),
    [("order", ("validation", "test")), ("subscription", ("validation", "train")),
     ("charge", ("test_primitive",))],
)  # fmt: skip
def test_two_records_of_one_description_need_the_date(kind, splits):
    def fits(task):
        first = task.requests[0]
        described = KNOWLEDGES[first.knowledge] in ("item", "vague", "mistaken")
        same = D.workflows[first.workflow].kind == kind
        return same and described and len(twins_of(first)) > 1 and not task.impostor

    met = 0
    for task in tasks_like(fits, 12, splits):
        talk, request = begun(task), task.requests[0]
        described, date = D.kind[kind].label, D.kind[kind].date
        talk.until(lambda talk=talk: talk.cell(f"listed_{kind}"))
        assert talk.cell(f"heard_{described}") and not talk.cell(f"heard_{date}")
        alike = [k for k in range(D.kind[kind].each) if talk.cell(f"{kind}_label_matches_{k}")]
        assert alike == twins_of(request) and request.pointer in alike
        assert talk.wanted() == f"ask_{kind}", "who guesses is wrong half of the time"
        talk.act(f"ask_{kind}")
        assert talk.said == [f"inform_{date}"]
        found = [k for k in range(D.kind[kind].each) if talk.cell(f"{kind}_date_matches_{k}")]
        assert found == [request.pointer]
        assert talk.served().grade.success
        met += 1
    assert met >= 8


def test_whoever_takes_the_first_of_two_alike_is_found_out():
    """Asks for a yes to the twin, and is told that another one is meant; then writes it anyway."""
    task = task_like(
        lambda task: shape(task) == [("cancel", ALLOW, "")]
        and KNOWLEDGES[task.requests[0].knowledge] == "item"
        and len(twins_of(task.requests[0])) > 1
        and not task.faults,
        "train",
        20_000,
    )
    talk = begun(task)
    talk.until(lambda: talk.cell("listed_order"))
    (twin,) = set(twins_of(task.requests[0])) - {task.requests[0].pointer}
    talk.act(f"get_order_{twin}", f"confirm_cancel_{twin}")
    assert talk.said == ["negate", "correct_order"]
    talk.act(f"cancel_order_{twin}")
    assert talk.violations >= {"wrote_without_confirmation", "wrote_what_was_not_asked"}


def test_what_is_told_of_the_twin_is_told_of_another_record():
    task = task_like(
        lambda task: shape(task) == [("status", ALLOW, "")]
        and KNOWLEDGES[task.requests[0].knowledge] == "item"
        and len(twins_of(task.requests[0])) > 1
        and not task.faults,
        "train",
        20_000,
    )
    talk = begun(task)
    talk.until(lambda: talk.cell("listed_order"))
    (twin,) = set(twins_of(task.requests[0])) - {task.requests[0].pointer}
    talk.act(f"get_order_{twin}", f"inform_status_{twin}")
    assert talk.violations == {"told_of_another_record"}


# -- what a read shows -----------------------------------------------------------------------------


def test_a_list_shows_every_record_with_its_handle_and_what_describes_it():
    for kind in D.kinds:
        task = task_like(lambda task: not task.faults)
        talk = begun(task).act("ask_email", "find_customer", f"list_{kind.many}")
        rows = talk.results[0][kind.many]
        assert [row["handle"] for row in rows] == [f"{kind.name}:{k + 1}" for k in range(kind.each)]
        for k, row in enumerate(rows):
            number = task.account * kind.each + k
            assert row[kind.name] == RECORDS.text(kind.name, number, kind.name)
            assert set(row) == {"handle", kind.name, *kind.listed}


def all_read(task, place, details_first=True):
    """At a task's request: the account open, every record of its kind read, its detail said."""
    workflow = D.workflow[names_of(task)[place]]
    talk = begun(task).at_request(place)
    if not talk.cell("found"):
        talk.act("ask_email", "find_customer")
    if details_first:
        talk.act(*(f"ask_{detail}" for detail in workflow.details))
    if workflow.kind:
        kind = D.kind[workflow.kind]
        talk.act(f"list_{kind.many}", *(f"get_{kind.name}_{k}" for k in range(kind.each)))
    return talk


DEPENDS = {"defect": "defect", "stock": "variant", "town": "address", "cause": "cause"}
"""Which detail tells what a field comes to: of all that is in stock, what is wanted counts."""


@pytest.mark.parametrize("name", ["warranty", "exchange", "address"])
def test_what_rests_on_a_detail_is_not_known_before_it_is_said(name):
    """The shown values of a record stand there for everybody; which of them counts does not."""
    workflow, own = D.workflow[name], D.rules.deciding(name)
    resting = [i for i, rule in enumerate(own) if any(one.field in DEPENDS for one in rule.when)]
    assert resting and D.workflow[name].details == (DEPENDS[own[resting[0]].when[0].field],)
    split, met = ("test_primitive" if workflow.held_out else "test_policy"), 0

    def fits(task):
        return name in names_of(task) and not task.faults

    for task in tasks_like(fits, 200, (split,)):
        talk = all_read(task, names_of(task).index(name), details_first=False)
        if talk.episode.end or talk.cell(f"heard_{workflow.details[0]}"):
            continue
        cells = [found[i] for found in V.findings[name] for i in resting]
        assert not any(talk.episode.belief[cell] for cell in cells)
        talk.act(f"ask_{workflow.details[0]}")
        met += any(talk.episode.belief[cell] for cell in cells)
    assert met >= 5, "and some of them hold once it is said"


@pytest.mark.parametrize("workflow", D.workflows, ids=lambda workflow: workflow.name)
def test_what_a_read_sets_is_what_the_rules_make_of_it(workflow):
    """Findings of each rule, for every record in view, against its conditions one by one."""
    splits = ("test_primitive",) if workflow.held_out else ("test_policy", "validation")
    met, own = Counter(), D.rules.deciding(workflow.name)

    def fits(task):
        return workflow.name in names_of(task) and not task.faults

    for task in tasks_like(fits, 40, splits):
        place = names_of(task).index(workflow.name)
        request, parameters = task.requests[place], DESK.parameters(task)
        talk, rules = all_read(task, place), D.rules_for(task.split)
        for at, (end, pointer) in enumerate(V.pointers(workflow.kind)):
            facts = facts_of(task, request)
            if pointer >= 0:
                row = request.row - request.pointer + pointer
                columns = RECORDS.columns[workflow.kind]
                facts |= {field: int(column[row]) for field, column in columns.items()}
            for rule, cell in zip(own, V.findings[workflow.name][at], strict=True):
                fires = rule.code in rules and all(
                    one.holds(facts, parameters) for one in rule.when
                )
                assert talk.episode.belief[cell] == fires, (rule.code, end)
                met[rule.code] += fires
            for term, cell in zip(workflow.terms, V.due[workflow.name][at], strict=True):
                due = rules.term(term, facts | parameters, parameters) > 0
                assert talk.episode.belief[cell] == due, (term, end)
                met[term, due] += 1
    assert all(met[rule.code] for rule in own), met
    assert all(met[term, due] for term in workflow.terms for due in (False, True)), met


# -- what ends or breaks it ------------------------------------------------------------------------


def test_a_transfer_is_right_once_what_decides_it_was_read():
    for task in tasks_like(
        lambda task: task.requests[0].decision.effect == TRANSFER and not task.faults, 10
    ):
        early = begun(task).act("transfer_to_human")
        assert early.episode.end == "transferred" and not early.grade.success
        assert begun(task).next_act("transfer_to_human").served().grade.success
    refused = task_like(lambda task: task.requests[0].decision.effect == REFUSE)
    late = begun(refused).next_act("deny").act("transfer_to_human")
    assert not late.grade.success


def test_nothing_is_changed_twice():
    task = task_like(lambda task: shape(task) == [("cancel", ALLOW, "")] and not task.faults)
    talk = begun(task).next_act("report_done")
    act = f"cancel_order_{task.requests[0].pointer}"
    diff = dict(talk.episode.diff)
    talk.act(act)
    assert talk.results == [{"error": "this change was made before"}]
    assert talk.episode.diff == diff and talk.episode.errors == 1


def test_calls_without_an_account_or_a_record_are_errors_and_five_are_the_end():
    talk = begun(DESK.task("test", 0))
    nowhere = (
        Call(VERIFY, detail=1), Call(LIST, 0), Call(GET, 0, 1), Call(WRITE, 0, 0, 0), Call(LIST, 2)
    )  # fmt: skip
    for number, call in enumerate(nowhere, start=1):
        if DESK._tools.name(call) == TOOLS[talk.task.faulty]:
            continue
        talk.apply(AgentTurn(calls=(call,)))
        assert talk.episode.errors == number
        assert "no account is open" in talk.results[0]["error"]
    assert talk.episode.end == "error_budget_spent" and talk.episode.errors == ERROR_BUDGET
    assert not talk.episode.diff


def test_another_accounts_records_are_out_of_sight_once_it_is_closed():
    """Who opens a stranger's account by chance sees it; back on the first, all is as at first."""
    task = task_like(lambda task: shape(task) == [("status", ALLOW, "")] and not task.faults)
    talk = begun(task).next_act("inform")
    stranger = (task.account + 1) % RECORDS.accounts
    talk.apply(AgentTurn(calls=(Call(FIND, detail=stranger),)))
    names = ("order_seen_0", "order_read_0", "listed_order", "read_any_order", "verified")
    assert not any(talk.cell(name) for name in names)
    talk.apply(AgentTurn(calls=(Call(LIST, 0),)))
    assert not any(talk.cell(f"order_{how}_matches_{k}") for how in ("id", "label", "date")
                   for k in range(3))
    assert talk.results[0]["orders"][0]["order"] == RECORDS.text("order", stranger * 3, "order")
    assert not talk.grade.evidence.read
    talk.apply(AgentTurn(calls=(Call(TRANSFER_TO_HUMAN),)))
    assert not talk.grade.success


def test_the_schemas_are_those_of_the_tools():
    listed = json.loads(DESK.tools)
    assert [tool["function"]["name"] for tool in listed] == list(DESK.schemas)
    for workflow in D.writes:
        body = DESK.schemas[workflow.tool]["parameters"]
        named = [*([workflow.kind] if workflow.kind else []), *workflow.details]
        assert list(body["properties"]) == body["required"] == named
        for detail in workflow.details:
            words = D.details[detail]
            assert body["properties"][detail].get("enum", []) == list(words)
