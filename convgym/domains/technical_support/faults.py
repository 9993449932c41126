"""The atomic faults: what breaks, what mends it, and when it is gone.

    Fault ── break_(state) ─► state with the component broken
          ── holds(state)  ─► whether the component works (again)
          ── fixes         ─► operations, any of which mends it; remedy: a booking instead

Faults are numbered over all kinds of device, in the order of the declaration; within one kind
in causal order, so the lowest fault that is present is the one that shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from convgym.domains.technical_support.devices import DEVICES, Break
from convgym.domains.technical_support.vocabulary import KINDS, OPERATION, VALUE

State = tuple[int, ...]
"""State of each component of a device, 0 as it should be; padded with zeros to `COMPONENTS`."""

COMPONENTS = max(len(device.components) for device in DEVICES)


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which one component of one kind of device fails."""

    number: int
    code: str
    """Such as `router.line.broken`."""
    kind: int
    component: int
    """Place in causal order."""
    state: int
    """The component's state while it is broken, from 1."""
    symptom: int
    """The value of the check `service` when nothing before it is broken."""
    fixes: tuple[int, ...]
    """Operations that mend it."""
    remedy: int
    """The booking that stands in for a fix, -1 for none."""
    held_out: bool

    @property
    def name(self) -> str:
        """The state's name, such as `broken`."""
        return self.code.rpartition(".")[2]

    @property
    def mendable(self) -> bool:
        """Whether it can be mended in the conversation; else it can only be booked or refused."""
        return bool(self.fixes)

    def break_(self, state: State) -> State:
        """`state` with this fault."""
        return (*state[: self.component], self.state, *state[self.component + 1 :])

    def holds(self, state: State) -> bool:
        """Whether its component works."""
        return state[self.component] == 0


def _numbered() -> tuple[tuple[Fault, ...], tuple[dict[str, int], ...]]:
    faults: list[Fault] = []
    states: list[dict[str, int]] = []  # of each kind: `line.broken` → 2
    for kind, device in enumerate(DEVICES):
        place = {component.name: n for n, component in enumerate(device.components)}
        broken: dict[str, int] = {}
        counted: dict[str, int] = {}
        for item in device.breaks:
            counted[item.component] = counted.get(item.component, 0) + 1
            broken[f"{item.component}.{item.state}"] = counted[item.component]
        states.append(broken)

        def causal(item: Break, place: dict[str, int] = place) -> int:
            return place[item.component]

        for item in sorted(device.breaks, key=causal):
            name = f"{item.component}.{item.state}"
            faults.append(
                Fault(
                    number=len(faults),
                    code=f"{KINDS[kind]}.{name}",
                    kind=kind,
                    component=place[item.component],
                    state=broken[name],
                    symptom=VALUE[item.symptom],
                    fixes=tuple(OPERATION[fix.operation] for fix in item.fixes),
                    remedy=OPERATION[item.remedy] if item.remedy else -1,
                    held_out=item.held_out,
                )
            )
    return tuple(faults), tuple(states)


FAULTS, STATE_NUMBERS = _numbered()
"""All faults; and for each kind the number of the state that `component.state` names."""
FAULT = {fault.code: fault.number for fault in FAULTS}
OF_KIND = tuple(
    tuple(fault.number for fault in FAULTS if fault.kind == kind) for kind in range(len(KINDS))
)
"""Numbers of the faults of each kind, in causal order."""
STATES = 1 + max(fault.state for fault in FAULTS)
WORKING: State = (0,) * COMPONENTS


def break_device(faults: tuple[int, ...]) -> State:
    """State of a working device after these faults; one to each component at most."""
    state = WORKING
    for number in faults:
        assert FAULTS[number].holds(state), "two faults on one component"
        state = FAULTS[number].break_(state)
    return state
