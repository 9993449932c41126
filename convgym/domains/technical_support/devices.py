"""Six kinds of device as chains of components, and what shows of each component's state.

    power ─► unit ─► radio ─► settings            a component is reached only through those that
    cable ─► line ─► account ─► dns               it comes `after`: with the line down nobody can
                                                  see whether the name server answers

Components are listed in causal order: the first that is broken makes the symptom. Each has a
few states, 0 being as it should be and one for each `Break`. This is the declaration; it is
compiled to integer tables in `convgym.domains.technical_support.physics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a device, and the parts that must work before it can."""

    name: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fix:
    """An operation that mends a break, if all that it `needs` works.

    `needs` None means the components that the broken one comes after. What is needed needs in
    turn what it comes after.
    """

    operation: str
    needs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """One way in which one component fails: an atomic fault."""

    component: str
    state: str
    symptom: str
    fixes: tuple[Fix, ...] = ()
    remedy: str = ""
    """The booking that stands in for a fix; empty where there is none."""
    held_out: bool = False
    """Met in the split `test_primitive` only."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one check or read shows: a value for a component (any break) or for one break.

    With `masked`, whatever the named components come after shows that value when broken.
    """

    look: str
    shows: Mapping[str, str]
    masked: str = ""


@dataclass(frozen=True, slots=True)
class SideEffect:
    """What a step breaks that worked before, if all that it `needs` works."""

    step: str
    component: str
    state: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Device:
    """The declaration of one kind of device."""

    name: str
    components: tuple[Component, ...]
    breaks: tuple[Break, ...]
    sights: tuple[Sight, ...]
    side_effects: tuple[SideEffect, ...] = ()


def _fixes(names: str) -> tuple[Fix, ...]:
    """`"set_dns factory_reset:unit"` → two fixes, the second with needs of its own.

    `reset_port:` needs nothing at all.
    """
    made = []
    for name in names.split():
        operation, colon, needs = name.partition(":")
        made.append(Fix(operation, tuple(filter(None, needs.split(","))) if colon else None))
    return tuple(made)


def _break(fault: str, symptom: str, fixes: str = "", remedy: str = "", *, held: int = 0) -> Break:
    component, state = fault.split(".")
    return Break(component, state, symptom, _fixes(fixes), remedy, bool(held))


def _see(look: str, shows: str, masked: str = "") -> Sight:
    """`"power:off unit.dead:red"` → what shows."""
    return Sight(look, dict(item.split(":") for item in shows.split()), masked)


def _chain(components: str) -> tuple[Component, ...]:
    """`"power unit(power) line(cable,unit)"` → components."""
    made = []
    for item in components.split():
        name, _, after = item.rstrip(")").partition("(")
        made.append(Component(name, tuple(filter(None, after.split(",")))))
    return tuple(made)


ROUTER = Device(
    "router",
    _chain(
        "power unit(power) radio(unit) settings(radio) cable line(cable) account(line,unit) "
        "dns(account) software(unit) channel(radio)"
    ),
    (
        _break("power.loose", "dead", "replug_power"),
        _break("power.off", "dead", "switch_on"),
        _break("unit.hung", "no_wifi", "restart"),
        _break("unit.dead", "no_wifi", remedy="order_replacement"),
        _break("unit.wet", "no_wifi"),
        _break("radio.off", "no_wifi", "turn_on_wifi", held=1),
        _break("settings.cleared", "no_wifi", "enter_settings"),
        _break("cable.loose", "no_internet", "replug_cable"),
        _break("cable.damaged", "no_internet", "swap_cable"),
        _break("line.port", "no_internet", "reset_port:"),
        _break("line.broken", "no_internet", remedy="book_technician"),
        _break("line.outage", "no_internet"),
        _break("account.unprovisioned", "no_internet", "push_config", held=1),
        _break("dns.wrong", "no_internet", "set_dns factory_reset:unit"),
        _break("software.corrupt", "slow", "factory_reset"),
        _break("software.old", "slow", "update_software:account"),
        _break("channel.crowded", "slow", "change_channel restart"),
    ),
    (
        _see("power_light", "power:off unit:red"),
        _see("power_cable", "power.loose:loose"),
        _see("power_switch", "power.off:off"),
        _see("wifi_light", "radio.off:off", "off"),
        _see("wifi_name", "settings.cleared:wrong channel.crowded:poor", "absent"),
        _see("data_cable", "cable.loose:loose cable.damaged:damaged"),
        _see("signal", "cable:off line:blinking account:red", "off"),
        _see("network_settings", "dns.wrong:wrong", "absent"),
        _see("software", "software.corrupt:failed software.old:old", "absent"),
        _see("damage", "unit.wet:wet"),
        _see("line_test", "cable:no_answer line:no_answer line.port:port_error"),
        _see("plan_read", "account.unprovisioned:not_provisioned"),
        _see("area_status", "line.outage:outage"),
    ),
    (SideEffect("factory_reset", "settings", "cleared", ("unit",)),),
)

PHONE = Device(
    "phone",
    _chain(
        "battery unit(battery) card(unit) flight(unit) network(card,flight) data(unit) plan "
        "access(unit) storage(unit) software(unit)"
    ),
    (
        _break("battery.empty", "dead", "charge"),
        _break("unit.frozen", "frozen", "restart"),
        _break("unit.dead", "dead", remedy="order_replacement"),
        _break("unit.wet", "dead"),
        _break("card.loose", "no_service", "reseat_card", held=1),
        _break("card.locked", "no_service", "unlock_sim"),
        _break("flight.on", "no_service", "leave_flight_mode"),
        _break("network.stuck", "no_service", "reset_port: restart"),
        _break("network.outage", "no_service"),
        _break("data.off", "no_data", "turn_on_data"),
        _break("plan.used", "no_data", "raise_limit:"),
        _break("access.wrong", "no_data", "enter_access_point push_config:network,data"),
        _break("storage.full", "crash", "free_storage factory_reset", held=1),
        _break("software.old", "crash", "update_software:access,plan,network,data"),
    ),
    (
        _see("screen", "battery:off unit.frozen:frozen unit.dead:off unit.wet:off"),
        _see("battery", "battery.empty:empty unit.dead:empty unit.wet:empty"),
        _see("card", "card.loose:absent card.locked:locked", "absent"),
        _see("quick_settings", "flight.on:on data.off:off", "absent"),
        _see("signal", "card:absent flight:absent network:absent", "off"),
        _see("network_settings", "access.wrong:wrong", "absent"),
        _see("storage", "storage.full:full", "absent"),
        _see("software", "software.old:old", "absent"),
        _see("damage", "unit.wet:wet"),
        _see("line_test", "network.stuck:port_error network.outage:no_answer"),
        _see("plan_read", "card.locked:locked plan.used:used_up"),
        _see("area_status", "network.outage:outage"),
    ),
    (SideEffect("factory_reset", "access", "wrong", ("unit",)),),
)

TV_BOX = Device(
    "tv_box",
    _chain(
        "power unit(power) remote cable source line wifi(unit) account(wifi,line) "
        "channels(account) software(unit)"
    ),
    (
        _break("power.loose", "dead", "replug_power"),
        _break("power.off", "dead", "switch_on"),
        _break("unit.frozen", "frozen", "restart"),
        _break("unit.dead", "dead", remedy="order_replacement"),
        _break("unit.wet", "dead"),
        _break("remote.empty", "frozen", "charge"),
        _break("cable.loose", "no_picture", "replug_cable", held=1),
        _break("cable.damaged", "no_picture", "swap_cable"),
        _break("source.wrong", "no_picture", "select_source"),
        _break("line.port", "no_channels", "reset_port:"),
        _break("line.broken", "no_channels", remedy="book_technician"),
        _break("line.outage", "no_channels"),
        _break("wifi.lost", "no_channels", "enter_password"),
        _break("account.unprovisioned", "no_channels", "push_config"),
        _break("account.signed_out", "no_channels", "sign_in"),
        _break("channels.missing", "no_channels", "search_channels"),
        _break("software.corrupt", "crash", "factory_reset"),
        _break("software.old", "crash", "update_software:account", held=1),
    ),
    (
        _see("power_light", "power:off unit.dead:off unit.wet:off"),
        _see("power_cable", "power.loose:loose"),
        _see("power_switch", "power.off:off"),
        _see(
            "screen",
            "power:off unit.frozen:frozen unit.dead:off unit.wet:off cable:absent source:absent",
        ),
        _see("battery", "remote.empty:empty"),
        _see("data_cable", "cable.loose:loose"),  # a broken wire inside does not show
        _see("source", "source.wrong:wrong"),
        _see("signal", "line:red wifi.lost:off", "off"),
        _see("account", "account.signed_out:signed_out", "absent"),
        _see("picture", "cable:absent source:absent channels.missing:absent", "absent"),
        _see("software", "software.corrupt:failed software.old:old", "absent"),
        _see("damage", "unit.wet:wet"),
        _see("line_test", "line:no_answer line.port:port_error"),
        _see("plan_read", "account.unprovisioned:not_provisioned"),
        _see("area_status", "line.outage:outage"),
    ),
    (
        SideEffect("factory_reset", "wifi", "lost", ("unit",)),
        SideEffect("factory_reset", "account", "signed_out", ("unit",)),
        SideEffect("factory_reset", "channels", "missing", ("unit",)),
    ),
)

LAPTOP = Device(
    "laptop",
    _chain(
        "power unit(power) driver(unit) wifi(driver) link(wifi) address(link) dns(address) "
        "proxy(address) clock(unit) storage(unit) software(unit)"
    ),
    (
        _break("power.loose", "dead", "replug_power"),
        _break("power.empty", "dead", "charge"),
        _break("unit.frozen", "frozen", "restart"),
        _break("unit.dead", "dead", remedy="order_replacement"),
        _break("unit.wet", "dead"),
        _break("driver.broken", "no_wifi", "reinstall_driver"),
        _break("wifi.off", "no_wifi", "turn_on_wifi"),
        _break("link.lost", "no_internet", "enter_password", held=1),
        _break("address.stale", "no_internet", "restart"),
        _break("dns.wrong", "no_internet", "set_dns", held=1),
        _break("proxy.on", "no_internet", "turn_off_proxy"),
        _break("clock.wrong", "no_internet", "set_clock"),
        _break("storage.full", "slow", "free_storage"),
        _break("software.old", "slow", "update_software:dns,proxy,clock,storage"),
    ),
    (
        _see("power_light", "power:off unit.dead:off unit.wet:off"),
        _see("power_cable", "power.loose:loose"),
        _see("battery", "power:empty"),
        _see("screen", "power:off unit.frozen:frozen unit.dead:off unit.wet:off"),
        _see("wifi_light", "driver:off wifi:off", "off"),
        _see("wifi_name", "link.lost:absent", "absent"),
        _see("network_settings", "address.stale:absent dns.wrong:wrong proxy.on:on", "absent"),
        _see("clock", "clock.wrong:wrong", "absent"),
        _see("storage", "storage.full:full", "absent"),
        _see("software", "driver.broken:failed software.old:old", "absent"),
        _see("damage", "unit.wet:wet"),
    ),
)

PRINTER = Device(
    "printer",
    _chain(
        "power unit(power) paper(unit) wifi(unit) driver source(driver) queue(driver) "
        "account(wifi) ink(unit)"
    ),
    (
        _break("power.loose", "dead", "replug_power"),
        _break("power.off", "dead", "switch_on", held=1),
        _break("unit.hung", "no_print", "restart"),
        _break("unit.dead", "no_print", remedy="order_replacement"),
        _break("unit.wet", "no_print"),
        _break("paper.empty", "no_print", "refill"),
        _break("paper.jam", "no_print", "clear_jam"),
        _break("wifi.lost", "offline", "enter_password"),
        _break("driver.broken", "no_print", "reinstall_driver"),
        _break("source.wrong", "no_print", "select_source"),
        _break("queue.stuck", "no_print", "clear_queue"),
        _break("account.suspended", "no_print", "push_config", held=1),
        _break("ink.empty", "poor_quality", "refill"),
        _break("ink.dried", "poor_quality", "clean"),
    ),
    (
        _see("power_light", "power:off unit:blinking"),
        _see("power_cable", "power.loose:loose"),
        _see("power_switch", "power.off:off"),
        _see("supplies", "paper.empty:empty paper.jam:jammed ink.empty:empty", "absent"),
        _see("wifi_light", "wifi.lost:off", "off"),
        _see("software", "driver.broken:failed"),
        _see("source", "source.wrong:wrong", "absent"),
        _see("queue", "queue.stuck:full", "absent"),
        _see("picture", "paper:absent ink:poor", "absent"),
        _see("damage", "unit.wet:wet"),
        _see("plan_read", "account.suspended:not_provisioned"),
    ),
    (SideEffect("reinstall_driver", "source", "wrong"),),
)

CAMERA = Device(
    "camera",
    _chain(
        "power unit(power) wifi(unit) account(wifi) registration(account) plan card(unit) "
        "software(unit) lens"
    ),
    (
        _break("power.loose", "offline", "replug_power"),
        _break("unit.hung", "offline", "restart"),
        _break("unit.dead", "offline", remedy="order_replacement"),
        _break("unit.wet", "offline"),
        _break("wifi.lost", "offline", "enter_password"),
        _break("account.signed_out", "no_picture", "sign_in"),
        _break("registration.missing", "no_picture", "push_config"),
        _break("plan.used", "no_recording", "raise_limit:", held=1),
        _break("card.loose", "no_recording", "reseat_card"),
        _break("card.full", "no_recording", "free_storage"),
        _break("software.corrupt", "crash", "factory_reset", held=1),
        _break("software.old", "crash", "update_software:registration"),
        _break("lens.dirty", "poor_quality", "clean"),
    ),
    (
        _see("power_light", "power:off unit:red wifi:blinking"),
        _see("power_cable", "power.loose:loose"),
        _see("wifi_light", "wifi.lost:off", "off"),
        _see("account", "account.signed_out:signed_out", "absent"),
        _see("picture", "registration.missing:absent lens.dirty:poor", "absent"),
        _see("card", "card.loose:absent", "absent"),
        _see("storage", "card.loose:absent card.full:full", "absent"),
        _see("software", "software.corrupt:failed software.old:old", "absent"),
        _see("damage", "unit.wet:wet"),
        _see("plan_read", "registration.missing:not_provisioned plan.used:used_up"),
    ),
    (
        SideEffect("factory_reset", "wifi", "lost", ("unit",)),
        SideEffect("factory_reset", "account", "signed_out", ("unit",)),
    ),
)

DEVICES = (ROUTER, PHONE, TV_BOX, LAPTOP, PRINTER, CAMERA)
"""In the order of `convgym.domains.technical_support.vocabulary.KINDS`."""
