"""`convgym domain check`: what the author of a folder wants to know of it."""

from __future__ import annotations

from collections.abc import Callable

from convgym.desk.folder import FolderDesk
from convgym.domains.catalogue import domain_called
from convgym.errors import InvalidConfiguration
from convgym.evaluation.survey import HEAD, survey

LIMIT = 0.02
"""The upper end of a null policy's interval that a domain may have."""


def check(folder: str, tasks: int, say: Callable[[str], None]) -> bool:
    """Say all there is to say of a folder; whether it is sound.

    Raises InvalidConfiguration where it cannot be loaded.
    """
    desk = domain_called(folder)
    if not isinstance(desk, FolderDesk):
        raise InvalidConfiguration(f"{folder!r} is one of ConvGym's own domains; give a folder")
    say(f"{desk.domain}: {len(desk.actions)} acts, {len(desk.layout)} cells\n")
    say(desk.policy_document(desk.task("train", 0)) + "\n")
    _say_words(desk, say)
    say(HEAD)
    faults = []
    for split in desk.splits:
        found = survey(folder, split, tasks)
        say(found.row())
        if found.ladder[-1].successes < found.tasks:
            faults.append(f"{split}: the oracle fails {found.tasks - found.ladder[-1].successes}")
        if found.highest_floor.upper > LIMIT and found.highest_floor.successes:
            faults.append(f"{split}: {found.highest_floor.agent} succeeds without listening")
    for fault in faults:
        say(f"FAULT  {fault}")
    return not faults


def _say_words(desk: FolderDesk, say: Callable[[str], None]) -> None:
    """What there is to say of a folder's words; quick, so it comes before the agents play."""
    made, complaints, unread = desk.made_words(), desk.complaints(), desk.unread()
    if made:
        say(f"Words made from names, for want of any in phrases.toml: {', '.join(made)}\n")
    for sentence in complaints:
        say(f"  cues: {sentence}")
    if unread:
        say("Not read back as what it means; widen the cues, or say it in other words:")
    else:
        say("All of the agent's wordings are read back as what they mean.")
    for name, wording, read in unread:
        say(f"  {name}: {wording!r} is read as {read or 'nothing'}")
    say("")
