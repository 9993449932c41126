"""Words of technical support: device kinds, values, checks, steps, and the desk's own tools.

    what the customer does on the device     CHECKS (look) ─► VALUES        STEPS (change)
    what the agent does from the desk        READS  (look) ─► VALUES        WRITES (change)

Checks and reads share one numbering (`LOOKS`), steps and writes another (`OPERATIONS`): both
sides act on one device state, and the tables of `convgym.domains.technical_support.physics`
have one row for each. Numbers are frozen: append, never reorder.
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("router", "phone", "tv_box", "laptop", "printer", "camera")
ROUTER, PHONE, TV_BOX, LAPTOP, PRINTER, CAMERA = range(len(KINDS))
KIND_NAMES = (
    "home router",
    "mobile phone",
    "TV box",
    "laptop",
    "printer",
    "security camera",
)


@dataclass(frozen=True, slots=True)
class Word:
    """One thing that can be looked at or done, as different people call it."""

    name: str
    plain: str
    """As anybody understands it, after "check" or "please"."""
    technical: str
    """As the trade calls it: a novice may not understand."""
    explanation: str
    """One line that makes up for missing expertise."""
    level: int = 0
    """Hundredths of expertise below which the customer needs the explanation first."""


SKILLED, EXPERT = 30, 60
"""Levels of what a practised user and what only an expert does without an explanation."""

# -- values --------------------------------------------------------------------------------------

VALUES: dict[str, str] = {
    "ok": "as it should be",
    "off": "dark or switched off",
    "on": "switched on, though it should be off",
    "blinking": "blinking all the time",
    "red": "red",
    "loose": "loose",
    "damaged": "damaged",
    "absent": "missing or not shown",
    "wrong": "not what it should be",
    "empty": "empty",
    "full": "full",
    "locked": "locked",
    "old": "out of date",
    "failed": "failed or broken",
    "frozen": "frozen, it does not react",
    "poor": "there, but poor",
    "jammed": "jammed",
    "signed_out": "signed out",
    "wet": "wet, or it was wet lately",
    # read by the agent
    "port_error": "port error",
    "no_answer": "no answer",
    "outage": "outage",
    "not_provisioned": "not provisioned",
    "used_up": "data used up",
    # seen when it is tried again: the symptoms
    "dead": "it does not turn on",
    "no_wifi": "the Wi-Fi is gone",
    "no_internet": "there is no internet",
    "slow": "it is terribly slow",
    "no_service": "there is no service, not even calls",
    "no_data": "calls work, but there is no mobile internet",
    "crash": "it keeps stopping with an error",
    "no_picture": "there is no picture",
    "no_channels": "no channel plays",
    "no_print": "it does not print",
    "poor_quality": "what comes out looks bad",
    "offline": "it shows as offline",
    "no_recording": "nothing is recorded",
    # answers that say nothing of the device
    "cannot_tell": "the customer cannot tell",
    "not_there": "this device has no such thing",
}
"""Meaning of each value. `ok` of the check `service` means that everything works."""
VALUE_NAMES = tuple(VALUES)
VALUE = {name: number for number, name in enumerate(VALUE_NAMES)}
OK = VALUE["ok"]
CANNOT_TELL, NOT_THERE = VALUE["cannot_tell"], VALUE["not_there"]
SYMPTOMS = (
    "dead",
    "frozen",
    "no_wifi",
    "no_internet",
    "slow",
    "no_service",
    "no_data",
    "crash",
    "no_picture",
    "no_channels",
    "no_print",
    "poor_quality",
    "offline",
    "no_recording",
)
"""What somebody notices who only wants to use the device."""

# -- looks: checks by the customer, reads by the agent -------------------------------------------

CHECKS: tuple[Word, ...] = (
    Word("service", "whether it works now", "end-to-end service", "Just use it as always."),
    Word("power_light", "the power light", "the power LED", "The small lamp next to the switch."),
    Word(
        "power_cable", "the power lead", "the PSU connection", "Push both ends of the power lead."
    ),
    Word("power_switch", "the main switch", "the rocker switch", "I stands for on, 0 for off."),
    Word(
        "data_cable", "the cable", "the data link cable", "Look at the plugs and along the cable."
    ),
    Word(
        "signal", "the signal", "the uplink indicator", "The lamp or bars that show a connection."
    ),
    Word(
        "wifi_light", "the Wi-Fi light", "the WLAN radio LED", "The lamp or sign with three waves."
    ),
    Word(
        "wifi_name", "the Wi-Fi network it shows", "the SSID", "The name in the list of networks."
    ),
    Word("screen", "the screen", "the display output", "Say what you see on it."),
    Word("battery", "the battery", "the state of charge", "The battery sign, or the charge lamp."),
    Word("card", "the card", "the SIM or SD slot", "The small card in the tray at the side."),
    Word(
        "quick_settings",
        "flight mode and mobile data",
        "the radio toggles",
        "Swipe down from the top: which of the two are lit?",
        SKILLED,
    ),
    Word("storage", "the free space", "storage utilisation", "Settings, then storage.", SKILLED),
    Word(
        "software", "the software version", "the firmware build", "Settings, then about.", SKILLED
    ),
    Word(
        "network_settings",
        "the network settings",
        "the DNS, APN and proxy configuration",
        "Settings, network, advanced: read me what stands there.",
        EXPERT,
    ),
    Word("clock", "date and time", "the system clock", "The corner of the screen shows them."),
    Word("account", "whether it is signed in", "the session state", "Your name stands at the top."),
    Word("source", "the chosen source", "the default target", "What is chosen in the list."),
    Word("supplies", "paper and ink", "the consumables", "Open the tray and the flap above it."),
    Word(
        "queue", "the list of print jobs", "the spooler queue", "Documents that wait to be printed."
    ),
    Word("damage", "whether it got wet", "liquid ingress", "Has anything been spilled on it?"),
    Word("picture", "what it looks like", "the image output", "Look at the picture or the page."),
)
READS: tuple[Word, ...] = (
    Word("line_test", "a line test", "run_line_test", "Asks the provider's side about the line."),
    Word("plan_read", "a look at the plan", "get_plan", "Provisioning, data left, SIM lock."),
    Word("area_status", "a look at the area", "get_area_status", "Whether there is an outage."),
)
LOOKS = (*CHECKS, *READS)
LOOK = {word.name: number for number, word in enumerate(LOOKS)}
SERVICE = LOOK["service"]
FIRST_READ = len(CHECKS)
LINE_TEST, PLAN_READ, AREA_STATUS = range(FIRST_READ, len(LOOKS))

# -- operations: steps by the customer, writes by the agent --------------------------------------

STEPS: tuple[Word, ...] = (
    Word("restart", "restart it", "power-cycle it", "Off, wait ten seconds, and on again."),
    Word(
        "factory_reset",
        "set it back to how it came",
        "perform a factory reset",
        "Hold the reset button for ten seconds; all settings are lost.",
        SKILLED,
    ),
    Word("replug_power", "push the power lead in", "reseat the PSU", "Both ends, until it clicks."),
    Word("switch_on", "switch it on", "set the rocker switch", "Press the side marked with I."),
    Word(
        "replug_cable", "push the cable in", "reseat the data link", "Both ends, until it clicks."
    ),
    Word(
        "swap_cable", "take another cable", "replace the link cable", "Use the spare from the box."
    ),
    Word("charge", "charge it", "restore the charge", "On the charger, or put in new batteries."),
    Word(
        "update_software",
        "update it",
        "flash the latest build",
        "Settings, update, start.",
        SKILLED,
    ),
    Word(
        "turn_on_wifi",
        "turn the Wi-Fi on",
        "enable the radio",
        "The key or switch with three waves.",
    ),
    Word(
        "enter_password",
        "enter the Wi-Fi password",
        "join the SSID",
        "It is on the router's label.",
    ),
    Word(
        "enter_settings",
        "set up the Wi-Fi again",
        "reconfigure SSID and WPA key",
        "Open the page on the label and follow the three questions.",
        SKILLED,
    ),
    Word(
        "sign_in", "sign in again", "re-authenticate the session", "With your usual name and code."
    ),
    Word(
        "set_dns",
        "set the name server",
        "set a static DNS resolver",
        "Network, advanced, DNS: type the four numbers I give you.",
        EXPERT,
    ),
    Word(
        "change_channel",
        "choose another Wi-Fi channel",
        "move the radio to a free channel",
        "Wi-Fi, advanced, channel: take one of 1, 6 and 11.",
        EXPERT,
    ),
    Word(
        "reseat_card",
        "take the card out and put it back",
        "reseat the SIM or SD",
        "Use a paper clip.",
    ),
    Word(
        "leave_flight_mode", "turn flight mode off", "re-enable the radios", "Tap the little plane."
    ),
    Word("turn_on_data", "turn mobile data on", "enable the data bearer", "Tap the two arrows."),
    Word(
        "enter_access_point",
        "enter the access point",
        "set the APN",
        "Mobile network, access points: type the name I give you.",
        EXPERT,
    ),
    Word("free_storage", "delete old things", "purge storage", "Old films and apps first."),
    Word(
        "select_source",
        "choose the right source",
        "set the input or default",
        "Pick it in the list.",
    ),
    Word("search_channels", "search the channels", "run a channel scan", "Menu, channels, search."),
    Word("set_clock", "set date and time", "correct the system clock", "Turn automatic time on."),
    Word(
        "turn_off_proxy",
        "turn the proxy off",
        "disable the HTTP proxy",
        "Network, advanced, proxy: choose none.",
        EXPERT,
    ),
    Word(
        "reinstall_driver",
        "install its driver again",
        "reinstall the device driver",
        "Remove it in the list of devices and add it again.",
        EXPERT,
    ),
    Word(
        "refill", "put in what is empty", "replenish the consumables", "Paper or a new cartridge."
    ),
    Word("clear_jam", "pull the paper out", "clear the paper path", "Open the flap, pull slowly."),
    Word("clear_queue", "delete the waiting jobs", "purge the spooler", "Mark all, then delete."),
    Word(
        "clean", "clean it", "clean the heads or the lens", "The menu's cleaning, or a soft cloth."
    ),
)
WRITES: tuple[Word, ...] = (
    Word("reset_port", "reset the port", "reset_port", "Restarts the line at the provider's end."),
    Word("push_config", "send the settings", "push_config", "Provisions the device from here."),
    Word("unlock_sim", "unlock the SIM", "unlock_sim", "Lifts the lock after wrong codes."),
    Word("raise_limit", "raise the limit", "raise_limit", "More data this month, for a fee."),
    Word("order_replacement", "order a replacement", "order_replacement", "A new one by post."),
    Word(
        "book_technician", "book a technician", "book_technician", "Comes to the house, for a fee."
    ),
)
OPERATIONS = (*STEPS, *WRITES)
OPERATION = {word.name: number for number, word in enumerate(OPERATIONS)}
FIRST_WRITE = len(STEPS)
RESET_PORT, PUSH_CONFIG, UNLOCK_SIM, RAISE_LIMIT, ORDER_REPLACEMENT, BOOK_TECHNICIAN = range(
    FIRST_WRITE, len(OPERATIONS)
)
RESTART, FACTORY_RESET = OPERATION["restart"], OPERATION["factory_reset"]
BOOKINGS = (ORDER_REPLACEMENT, BOOK_TECHNICIAN)
"""Writes that promise a remedy for later: the device stays as it is."""

# -- the same thing goes by other names on other devices -----------------------------------------

LOCAL: dict[tuple[str, str], str] = {
    ("router", "data_cable"): "the network cable",
    ("tv_box", "data_cable"): "the HDMI cable",
    ("router", "signal"): "the internet light",
    ("phone", "signal"): "the signal bars",
    ("tv_box", "signal"): "the network symbol",
    ("laptop", "wifi_light"): "the Wi-Fi symbol",
    ("phone", "card"): "the SIM card",
    ("camera", "card"): "the memory card",
    ("tv_box", "battery"): "the battery of the remote",
    ("laptop", "battery"): "the charge lamp",
    ("tv_box", "source"): "the input of the TV set",
    ("printer", "source"): "the default printer",
    ("tv_box", "picture"): "the list of channels",
    ("printer", "picture"): "the printed page",
    ("camera", "picture"): "the camera's picture",
    ("tv_box", "charge"): "put new batteries into the remote",
    ("tv_box", "select_source"): "choose the right input on the TV set",
    ("printer", "select_source"): "choose it as the default printer",
    ("phone", "reseat_card"): "take the SIM card out and put it back",
    ("camera", "reseat_card"): "take the memory card out and put it back",
    ("printer", "clean"): "run the menu's cleaning of the print heads",
    ("camera", "clean"): "wipe the lens with a soft cloth",
}
"""Plain words of a check or step on one kind of device, where they differ from `Word.plain`."""


def plain_words(kind: int, word: Word) -> str:
    """What `word` is called in plain words on this kind of device."""
    return LOCAL.get((KINDS[kind], word.name), word.plain)
