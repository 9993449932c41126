"""The tools of the support desk: reads and writes, each answering in JSON.

A read sets belief cells; a write goes into the episode's diff and reaches the device, after the
rules have been asked which obligations it breaks. A tool does what it is told: that a policy
forbids it is found out by the grading, not by the tool.
"""

from __future__ import annotations

from convgym.desk.state import answer_json, error_json
from convgym.desk.tools import RIGHT, STATED_WRONG
from convgym.domains.technical_support import cells
from convgym.domains.technical_support.dialogue import (
    END_CONVERSATION,
    FIND_CUSTOMER,
    GET_DEVICE,
    GET_STATED,
    LIST_DEVICES,
    PIN,
    READ,
    TRANSFER_TO_HUMAN,
    VERIFY_PIN,
    VIEW,
)
from convgym.domains.technical_support.facts import NEVER
from convgym.domains.technical_support.records import (
    AGAINST,
    NOTHING,
    check,
    check_end,
    decided,
    factors,
    hold_device,
    is_meant,
    match,
    note_look,
    note_operation,
    other_device_shows,
    shown,
    violate,
    weigh,
    write_on,
)
from convgym.domains.technical_support.verdict import grounded
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    FIRST_WRITE,
    LOOKS,
    NOT_THERE,
    OPERATIONS,
    ORDER_REPLACEMENT,
    PLAN_READ,
    PUSH_CONFIG,
    RESET_PORT,
    VALUE,
    VALUE_NAMES,
)
from convgym.domains.technical_support.world import DEVICES_EACH, PLANS, world
from convgym.engine.acts import Call
from convgym.engine.episode import Episode
from convgym.engine.rules import ALLOW, TRANSFER

SERIAL = 2
"""Place of the serial among what was heard: `DeskState.heard`."""
REPEATABLE = (RESET_PORT, PUSH_CONFIG)
"""Writes that may be made more than once."""


def call_of(episode: Episode, tool: int, argument: int, pointer: int) -> Call:
    """The call that an act stands for: filled in from what the customer has said."""
    desk, task = episode.desk, episode.task
    own = desk.account == task.customer
    if tool == FIND_CUSTOMER:
        return Call(tool, detail=task.customer if desk.heard[0] == 1 else NOTHING)
    if tool == VERIFY_PIN:
        return Call(tool, detail=RIGHT if own and desk.heard[PIN] == 1 else STATED_WRONG)
    if tool == GET_STATED:
        found = own and desk.heard[SERIAL] == 1
        return Call(GET_DEVICE, 0, task.pointer if found else NOTHING)
    if tool == GET_DEVICE:
        return Call(tool, 0, pointer)
    return Call(tool, argument, desk.in_hand)


def run(episode: Episode, call: Call) -> str:
    """Run one tool; returns what the agent reads."""
    tool = call.tool
    if tool == TRANSFER_TO_HUMAN:
        return _transfer(episode)
    if tool == END_CONVERSATION:
        check_end(episode)
        episode.end = "agent_ended"
        episode.note("end_conversation", "")
        return answer_json(ended=True)
    if tool == FIND_CUSTOMER:
        return _find(episode, call.detail)
    if not episode.belief[cells.FOUND]:
        return fail(episode, "no account is open; call find_customer first")
    if tool == VERIFY_PIN:
        return _verify(episode, call.detail)
    if tool == LIST_DEVICES:
        return _list(episode)
    if tool == READ and call.argument == AREA_STATUS:
        return _read_area(episode)
    if tool == GET_DEVICE:
        return _get(episode, call.pointer)
    if call.pointer < 0:
        return fail(episode, "this account has no such device; call list_devices to see them")
    if call.pointer != episode.desk.in_hand:
        return fail(episode, "this device was not read yet; call get_device first")
    if tool == READ:
        return _read(episode, call.argument)
    return _write(episode, call.argument)


def fail(episode: Episode, sentence: str) -> str:
    """Charge an error to the budget."""
    episode.errors += 1
    episode.note("error", sentence)
    return error_json(sentence)


# -- the account -----------------------------------------------------------------------------------


def _find(episode: Episode, account: int) -> str:
    belief, desk, provider = episode.belief, episode.desk, world()
    if account < 0:
        belief[cells.REJECTED[0]] = 1
        episode.note("find_customer", "no account")
        return error_json("no account is kept under this phone number")
    if desk.account != account:
        desk.account, desk.in_hand, desk.asked_to_confirm = account, NOTHING, NOTHING
        for cell in cells.OF_ACCOUNT:
            belief[cell] = 0
    belief[cells.FOUND] = 1
    _authenticate(episode)
    weigh(episode)
    episode.note("find_customer", str(account))
    overdue = episode.task.overdue if account == episode.task.customer else 0
    return answer_json(
        customer=provider.name(account),
        phone=provider.phone(account),
        area=provider.area_name(account),
        plan=PLANS[provider.plan[account]],
        bill_overdue=bool(overdue),
        needs_verification=not belief[cells.AUTHENTICATED],
    )


def _authenticate(episode: Episode) -> None:
    enough = factors(episode.belief) >= episode.desk.parameters["auth_level"]
    episode.belief[cells.AUTHENTICATED] = enough


def _verify(episode: Episode, matches: int) -> str:
    belief = episode.belief
    episode.note("verify_pin", "verified" if matches == RIGHT else "failed")
    if matches == RIGHT:
        belief[cells.VERIFIED] = 1
        _authenticate(episode)
        return answer_json(verified=True)
    # Only what the customer said counts, and the same thing tried again counts once.
    if matches == STATED_WRONG and not belief[cells.REJECTED[PIN]]:
        belief[cells.FAILURES] = min(belief[cells.FAILURES] + 1, 255)
        belief[cells.REJECTED[PIN]] = 1
    return answer_json(verified=False, error="this is not the PIN of the account")


# -- devices ---------------------------------------------------------------------------------------


def _list(episode: Episode) -> str:
    for cell in (*cells.SEEN_DEVICE, cells.LISTED):
        episode.belief[cell] = 1
    match(episode)
    episode.note("list_devices", str(episode.desk.account))
    return answer_json(devices=[described(episode, k) for k in VIEW])


def described(episode: Episode, pointer: int) -> dict[str, str]:
    """A device in view, as the list shows it."""
    row, provider = episode.desk.account * DEVICES_EACH + pointer, world()
    return {
        "handle": f"device:{pointer + 1}",
        "kind": provider.kind_name(row),
        "model": provider.model_name(row),
        "room": provider.room_name(row),
        "serial": provider.serial(row),
    }


def record(episode: Episode, pointer: int) -> dict[str, str | int | None]:
    """What a device's record says beside that."""
    row, task = episode.desk.account * DEVICES_EACH + pointer, episode.task
    replaced = task.replaced if row == task.device else NEVER
    return {
        "maker": "another maker" if world().is_foreign(row) else "ours",
        "months_since_purchase": world().months[row],
        "months_since_replacement": None if replaced == NEVER else replaced,
    }


def _get(episode: Episode, pointer: int) -> str:
    if pointer < 0:
        episode.belief[cells.REJECTED[SERIAL]] = 1
        episode.note("get_device", "no such device")
        return error_json("this account has no such device")
    hold_device(episode, pointer)
    match(episode)
    weigh(episode)
    seen = described(episode, pointer)
    episode.note("get_device", seen["serial"])
    return answer_json(**seen, **record(episode, pointer))


# -- the provider's side ---------------------------------------------------------------------------


def _read(episode: Episode, look: int) -> str:
    task = episode.task
    if is_meant(episode):
        value = shown(episode, look)
    else:
        row = episode.desk.account * DEVICES_EACH + episode.desk.in_hand
        value = other_device_shows(world().kind[row], look)
    name = LOOKS[look].technical
    if value == NOT_THERE:
        episode.note(name, "nothing")
        episode.belief[cells.SHOWN_BY[look]] = 1
        return answer_json(device=f"device:{episode.desk.in_hand + 1}", result="does not apply")
    note_look(episode, look, value)
    episode.note(name, VALUE_NAMES[value])
    raised = task.raised if is_meant(episode) else 0
    return answer_json(
        device=f"device:{episode.desk.in_hand + 1}",
        result=VALUE_NAMES[value],
        **({"raised_this_month": raised} if look == PLAN_READ else {}),
    )


def _read_area(episode: Episode) -> str:
    area = world().area[episode.desk.account]
    out = episode.task.outages >> area & 1
    note_look(episode, AREA_STATUS, VALUE["outage"] if out else VALUE["ok"])
    episode.note("get_area_status", "outage" if out else "ok")
    return answer_json(
        area=world().area_name(episode.desk.account), result="outage" if out else "ok"
    )


def _write(episode: Episode, write: int) -> str:
    belief, desk = episode.belief, episode.desk
    name = OPERATIONS[write].name
    row = desk.account * DEVICES_EACH + desk.in_hand
    if ("device", row, name) in episode.diff and write not in REPEATABLE:
        return fail(episode, "this was done before")
    check(episode, write)
    if is_meant(episode):
        if decided(episode, write).effect != ALLOW:
            violate(episode, AGAINST)
        write_on(episode, write)
    episode.diff["device", row, name] = 1
    desk.last_write = write
    belief[cells.CONFIRMED[write - FIRST_WRITE]] = 0
    belief[cells.UNREPORTED], desk.asked_to_confirm = 1, NOTHING
    note_operation(episode, write)
    episode.note(name, world().serial(row))
    done = "ordered" if write == ORDER_REPLACEMENT else "done"
    return answer_json(device=f"device:{desk.in_hand + 1}", **{done: True})


def _transfer(episode: Episode) -> str:
    task, desk = episode.task, episode.desk
    episode.end = "transferred"
    desk.transferred = True
    right = task.decision.effect == TRANSFER and grounded(episode, task.decision.reason)
    desk.decided_right |= right
    episode.note("transfer_to_human", "right" if right else "wrong")
    return answer_json(transferred=True)
