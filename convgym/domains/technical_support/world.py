"""The provider: customers, their devices and areas, immutable, the same in every process.

    customer c ── devices 3c, 3c+1, 3c+2
       │             └── kind, model, serial, room, months since the purchase
       └── phone number (the account's key), PIN (the second factor), area, plan

Everything is an integer column; names, numbers and serials are put together only where somebody
reads them. What differs per episode (outages, an overdue bill, a recent replacement) stands in
the task, which lies over these columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support.vocabulary import KIND_NAMES, KINDS
from convgym.engine import keys

CUSTOMERS = 1200
DEVICES_EACH = 3
_WORLD_KEY = 0x7EC45000A11CE001

AREAS = (
    "Northgate",
    "Southbank",
    "Eastfield",
    "Westbrook",
    "Old Harbour",
    "Riverside",
    "Hillcrest",
    "Lakeview",
    "Millbrook",
    "Stonebridge",
    "Ferndale",
    "Kingsmead",
)
PLANS = ("basic", "plus", "business")
BASIC, PLUS, BUSINESS = range(3)
ROOMS = ("living room", "study", "kitchen", "bedroom", "hall", "workshop")

MODELS_EACH = 4
FOREIGN = MODELS_EACH - 1
"""The last model of each kind is another maker's."""
MODELS: tuple[tuple[str, ...], ...] = (
    ("Nova 1", "Nova 3", "Nova Pro", "Ratio R20"),
    ("Piper S", "Piper X", "Piper Max", "Corvus 9"),
    ("Vista One", "Vista Duo", "Vista Home", "Lumo Stick"),
    ("Atlas 13", "Atlas 15", "Atlas Work", "Borea Air"),
    ("Quill 20", "Quill 40", "Quill Photo", "Inkra Jet"),
    ("Argus Mini", "Argus Out", "Argus 360", "Peep Eye"),
)
MOST_MONTHS = 36

_FIRST = (
    "Anna Boris Celia Dario Edith Farid Gloria Henry Ida Julian Klara Leon Mira Noel Oscar "
    "Paula Ravi Sofia Theo Ulla Vera Walter Xenia Yara Zack Ahmed Bianca Conrad Dora Ewan "
    "Fiona Goran"
).split()
_LAST = (
    "Abbott Becker Carver Delgado Eriksen Foley Grant Hartley Iqbal Jansen Kovacs Lambert "
    "Mercer Nilsen Osborne Palmer Quigley Ramos Sawyer Tanner Ueda Valdez Weaver Xiong Yates "
    "Zeller Aldous Barlow Crowe Dobson Ekman Farrow"
).split()

_PHONES, _PHONE_STEP = 99_999_989, 61_803_397
_SERIALS, _SERIAL_STEP = 89_989, 7_919


@dataclass(frozen=True)
class World:
    """Integer columns; rows of devices belong to customer `row // DEVICES_EACH`."""

    first: list[int]
    last: list[int]
    pin: list[int]
    area: list[int]
    plan: list[int]
    kind: list[int]
    model: list[int]
    """Within the kind, `FOREIGN` being another maker's."""
    room: list[int]
    """Never the same for two devices of a customer."""
    months: list[int]
    """Since the purchase, 1 to `MOST_MONTHS`."""
    columns: dict[str, NDArray[np.int64]]
    """What tasks are chosen by, with a row for each device."""

    def name(self, customer: int) -> str:
        """First and last name."""
        return f"{_FIRST[self.first[customer]]} {_LAST[self.last[customer]]}"

    def phone(self, customer: int) -> str:
        """The number that the account is kept under: ten digits, unlike any other's."""
        return f"07{(customer * _PHONE_STEP + 1_234_567) % _PHONES:08d}"

    def wrong_phone(self, customer: int) -> str:
        """A number off by one, as memory has it; belongs to nobody."""
        return f"07{(customer * _PHONE_STEP + 1_234_568) % _PHONES:08d}"

    def pin_text(self, customer: int) -> str:
        """Four digits."""
        return f"{self.pin[customer]:04d}"

    def wrong_pin(self, customer: int) -> str:
        """A PIN that is not this customer's."""
        return f"{(self.pin[customer] - 1000 + 4321) % 9000 + 1000:04d}"

    def serial(self, device: int) -> str:
        """`D` and five digits, unlike any other device's."""
        return f"D{10_000 + (device * _SERIAL_STEP + 2_345) % _SERIALS}"

    def wrong_serial(self, device: int) -> str:
        """A serial off by one: no device has it."""
        return f"D{10_000 + (device * _SERIAL_STEP + 2_346) % _SERIALS}"

    def kind_name(self, device: int) -> str:
        """Such as `home router`."""
        return KIND_NAMES[self.kind[device]]

    def model_name(self, device: int) -> str:
        """Such as `Nova 3`."""
        return MODELS[self.kind[device]][self.model[device]]

    def room_name(self, device: int) -> str:
        """Where it is kept: it tells two devices of one kind apart."""
        return ROOMS[self.room[device]]

    def area_name(self, customer: int) -> str:
        """Where the customer lives."""
        return AREAS[self.area[customer]]

    def is_foreign(self, device: int) -> bool:
        """Whether it was made by somebody else."""
        return self.model[device] == FOREIGN

    def has_twin(self, device: int) -> bool:
        """Whether its owner has another device of the same kind."""
        first = device - device % DEVICES_EACH
        return self.kind[first : first + DEVICES_EACH].count(self.kind[device]) > 1

    def customer_by_phone(self, phone: str) -> int:
        """Row of the account kept under `phone`, -1 where there is none."""
        return _accounts().get("".join(filter(str.isdigit, phone)), -1)

    def device_by_serial(self, serial: str) -> int:
        """Row of a device, -1 where there is none."""
        return _serials().get(serial.strip().upper(), -1)


@cache
def _accounts() -> dict[str, int]:
    provider = world()
    return {provider.phone(customer): customer for customer in range(CUSTOMERS)}


@cache
def _serials() -> dict[str, int]:
    provider = world()
    return {provider.serial(device): device for device in range(CUSTOMERS * DEVICES_EACH)}


@cache
def world() -> World:
    """The one provider of this version, built once per process."""
    customers = np.arange(CUSTOMERS, dtype=np.uint64)
    devices = np.arange(CUSTOMERS * DEVICES_EACH, dtype=np.uint64)

    def column(rows: NDArray[np.uint64], index: int, count: int) -> NDArray[np.int64]:
        return keys.below_batch(keys.draw_batch(_WORLD_KEY, keys.WORLD, rows, index), count)

    # Three kinds in a row of the circle of six, beginning anywhere, one in two times with the
    # third one being a second of the first.
    kind = column(customers, 0, len(KINDS))[:, None] + np.array([0, 1, 2])
    stride = column(customers, 1, 2)[:, None] * np.array([0, 1, 2])  # 0 1 2 or 0 2 4
    kind = (kind + stride) % len(KINDS)
    twins = column(customers, 2, 2) == 0
    kind[twins, 2] = kind[twins, 0]
    room = column(customers, 3, len(ROOMS))[:, None] + np.array([0, 1, 3])
    model = column(devices, 4, 5) % MODELS_EACH  # the first model is twice as common
    plan = np.array([BASIC, BASIC, BASIC, PLUS, PLUS, PLUS, BUSINESS])[column(customers, 7, 7)]
    area = column(customers, 6, len(AREAS))
    months = 1 + column(devices, 5, MOST_MONTHS)
    owner = np.repeat(np.arange(CUSTOMERS), DEVICES_EACH)
    rows = kind.ravel()
    columns = {
        "kind": rows,
        "model": model,
        "months": months,
        "plan": plan[owner],
        "area": area[owner],
        "twin": ((kind[:, :, None] == kind[:, None, :]).sum(axis=2) > 1).ravel().astype(np.int64),
    }
    return World(
        first=column(customers, 10, len(_FIRST)).tolist(),
        last=column(customers, 11, len(_LAST)).tolist(),
        pin=(1000 + column(customers, 12, 9000)).tolist(),
        area=area.tolist(),
        plan=plan.tolist(),
        kind=rows.tolist(),
        model=model.tolist(),
        room=(room % len(ROOMS)).ravel().tolist(),
        months=months.tolist(),
        columns=columns,
    )
