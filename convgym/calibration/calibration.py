"""Fit a simulated user to a log, and say on held-out conversations how far off it is.

    real ─┬─ fitted ───► LogSimulator, 36 parameters ─► polish of what counts cannot set
          └─ held out ─► gap before (a script), gap after, floor (real against real)

    calibration = calibrate(conversations, seed=0)
    calibration.gap_after / calibration.floor      1 is as good as real
    calibration.params["answer"], calibration.ci["answer"], calibration.identifiable["answer"]
    calibration.simulator().generate(1_000, seed=1)
    calibration.save("user.npz")

Held out is by conversation, and so that no beginning of one is in both parts, but for lone first
turns, which many say; the polish (`convgym.calibration.polish`) sees the fitted part alone. Where
agents speak, the user answers the held-out agents' recorded turns; else it talks open loop. The gap
is that of `convgym.calibration.moments`; the report of every measure is `compute_sim_real_gap`'s.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from convgym.calibration.agenda_user import agenda_user
from convgym.calibration.baselines import scripted
from convgym.calibration.divergences import compute_kl_divergence, histogram
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.moments import moment_floor, moment_gap, moments
from convgym.calibration.parameters import PARAMETERS, Posterior, fit_parameters
from convgym.calibration.polish import Polish, Progress, agents_in, polish, simulated, turned
from convgym.calibration.signatures import Gap, Heard, LoggedTurn, LoggedUser, is_labelled, speaks
from convgym.calibration.text_acts import TextActs
from convgym.calibration.turns import UserTurns
from convgym.conversation import Conversation
from convgym.data.splits import split_indices
from convgym.errors import InvalidConfiguration
from convgym.language.archive import DAMAGE, Arrays, read_archive, write_archive
from convgym.language.encoders import Encoder, encoder_of
from convgym.randomization.randomizer import DomainRandomizer
from convgym.users.fitted_user import CALIBRATION, USER, FittedUser

Method = Literal["auto", "counts", "text"]
LEAST = 20
"""Conversations on either side of the split."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A fitted user, how certain its numbers are, and how far it is from real ones."""

    method: Method
    """`counts` where the log's labels were used, `text` where acts were read off the words."""
    posterior: dict[str, Posterior]
    """Of each of the 36 parameters."""
    gap_before: float
    """Of a script read off the fitted part."""
    gap_after: float
    """Of the fitted user."""
    floor: float
    """Of as many real conversations of the fitted part."""
    kl_div: float
    """Of words a turn, real from simulated, in nats."""
    length_match: float
    """1 − |difference of mean words a turn| / the real mean."""
    held_out: tuple[str, ...]
    """Ids of the conversations that the gaps were measured on."""
    polish: Polish | None
    """What the polish tried and how it was judged; None where it tried nothing."""
    _simulator: LogSimulator

    @property
    def polished(self) -> dict[str, float]:
        """The knobs that the polish has turned, by name; none where the counts stayed."""
        return dict(self.polish.knobs) if self.polish is not None and self.polish.taken else {}

    @property
    def params(self) -> dict[str, float]:
        """The posterior means."""
        return {name: found.mean for name, found in self.posterior.items()}

    @property
    def ci(self) -> dict[str, tuple[float, float]]:
        """The 95 % intervals."""
        return {name: (found.low, found.high) for name, found in self.posterior.items()}

    @property
    def identifiable(self) -> dict[str, float]:
        """Posterior sd / prior sd: near 0 the log tells, at 1 it says nothing."""
        return {name: found.identifiable for name, found in self.posterior.items()}

    def simulator(self) -> LogSimulator:
        """The fitted user."""
        return self._simulator

    def user(self) -> FittedUser:
        """What environments take of it by `user=path`."""
        return agenda_user(self._simulator.log, self.posterior)

    def domain_randomizer(self, widen: float = 1.0, seed: int = 0) -> DomainRandomizer:
        """Draws people as far from the middle as the log leaves them uncertain.

        widen: multiplies the uncertainty. `persona_variation` and `style_variation` are the mean of
        posterior sd / prior sd over what people do and how they write, 1 at most.
        """
        if not widen >= 0:
            raise InvalidConfiguration(f"widen={widen!r}; it takes a number from 0")
        blocks = {p.name: p.block for p in PARAMETERS}
        unknown: dict[bool, list[float]] = {True: [], False: []}
        for name, share in self.identifiable.items():
            unknown[blocks[name] == "style"].append(share)
        people, style = (widen * float(np.mean(unknown[of])) for of in (False, True))
        return DomainRandomizer(
            persona_variation=min(1.0, people),
            style_variation=min(1.0, style),
            seed=seed,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one `.npz` file, whole or not at all: the numbers, and the fitted turns."""
        about = {
            "format": CALIBRATION,
            "labels": self._simulator.labels,
            "parameters": {name: found.to_dict() for name, found in self.posterior.items()},
            **{name: getattr(self, name) for name in _NUMBERS},
            "held_out": list(self.held_out),
            "polish": None if self.polish is None else asdict(self.polish),
            USER: self.user().to_dict(),
        }
        raw = json.dumps([_packed(user) for user in self._simulator.log]).encode()
        write_archive(path, about, {"log": np.frombuffer(raw, dtype=np.uint8)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read what `save` wrote; raises InvalidConfiguration for anything else."""
        try:
            return cls._of(*read_archive(path, CALIBRATION))
        except DAMAGE as error:
            told = str(error)
            if not isinstance(error, InvalidConfiguration):
                told = f"{path} holds no whole {CALIBRATION!r}, with the log's users: {error!r}"
            raise InvalidConfiguration(
                f"{told}; give a file that Calibration.save or `convgym calibrate` has written"
            ) from error

    @classmethod
    def _of(cls, about: Mapping[str, Any], arrays: Arrays) -> Calibration:
        log = [_unpacked(user) for user in json.loads(arrays["log"].tobytes())]
        polished = None if about["polish"] is None else Polish(**about["polish"])
        return cls(
            posterior={name: Posterior(**found) for name, found in about["parameters"].items()},
            **{name: about[name] for name in _NUMBERS},
            held_out=tuple(about["held_out"]),
            polish=polished,
            _simulator=_user(LogSimulator(log, about["labels"]), polished),
        )


_NUMBERS = ("method", "gap_before", "gap_after", "floor", "kl_div", "length_match")


def calibrate(
    real: Iterable[Conversation],
    method: Method = "auto",
    holdout: float = 0.3,
    encoder: str | os.PathLike[str] | Encoder = "hash",
    seed: int = 0,
    budget_s: float = 0,
    *,
    progress: Progress | None = None,
) -> Calibration:
    """Fit a user to recorded conversations.

    method: `counts` uses the log's acts or intents; `text` reads acts off the words; `auto` takes
        counts where at least half of the user turns are labelled.
    holdout: share of the conversations that the gaps are measured on, in (0, 1).
    encoder: for `text`, what is like what (`encoder_of`).
    budget_s: nominal seconds for the polish, the same number of trials on every machine; 0 leaves
        the user as counted, which polishing has seldom bettered since users follow agendas. It
        takes 80 fitted conversations.
    progress: told after each generation of the polish how many settings were tried, of how many.

    Raises InvalidConfiguration for another method, share or budget, `counts` without labels, or
    fewer than 20 conversations with user turns on either side; MissingExtra without scipy, or
    without cma where there is a polish.
    """
    real = list(real)
    spoken = [c for c in real if any(map(speaks, c.messages))]
    if method not in get_args(Method):
        raise InvalidConfiguration(f"method={method!r}; it takes 'auto', 'counts' or 'text'")
    if not 0 < holdout < 1:
        raise InvalidConfiguration(f"holdout={holdout!r}; it takes a share above 0 and below 1")
    if seed < 0:
        raise InvalidConfiguration(f"seed={seed!r}; it takes a whole number from 0")
    if not 0 <= budget_s < math.inf:
        raise InvalidConfiguration(f"budget_s={budget_s!r}; it takes seconds, from 0")
    if not spoken:
        raise InvalidConfiguration(
            f"{len(real)} conversations came in which no user says anything; a user is fitted to "
            "turns of the role 'user' that have words"
        )
    labelled = is_labelled(spoken)
    if method == "counts" and not labelled:
        raise InvalidConfiguration(
            "method='counts' came with a log whose user turns are mostly unlabelled; take 'text', "
            "or label them with acts or intents"
        )
    counted = labelled and method != "text"
    parts = split_indices(spoken, (1 - holdout, holdout), seed, least_turns=2)
    fitted, held_out = ([spoken[index] for index in part] for part in parts)
    if min(len(fitted), len(held_out)) < LEAST:
        raise InvalidConfiguration(
            f"{len(fitted)} conversations to fit and {len(held_out)} held out; it takes "
            f"{LEAST} or more of each (conversations that begin alike stay together), so give more "
            "conversations or another holdout"
        )
    acts_of = None
    if not counted:
        texts = [m.content for c in fitted for m in c.messages if speaks(m)]
        acts_of = TextActs(texts, encoder_of(encoder), seed)
    simulator = LogSimulator.of(fitted, acts_of)
    polished = polish(simulator, fitted, seed, budget_s, progress)
    user = _user(simulator, polished)
    return Calibration(
        method="counts" if counted else "text",
        posterior=fit_parameters(simulator.log, labelled=counted),
        **_gaps(user, fitted, held_out, seed),
        held_out=tuple(c.conversation_id for c in held_out),
        polish=polished,
        _simulator=user,
    )


def _user(counted: LogSimulator, polished: Polish | None) -> LogSimulator:
    """The counted user, with the knobs of a polish that was taken."""
    return turned(counted, polished.knobs) if polished and polished.taken else counted


def _gaps(
    simulator: LogSimulator,
    fitted: Sequence[Conversation],
    held_out: Sequence[Conversation],
    seed: int,
) -> dict[str, Any]:
    made = simulated(simulator, held_out, seed)
    script = scripted(fitted, len(held_out), agents_in(held_out))
    real, after, before = map(moments, (held_out, made, script))
    words = [UserTurns.of(side).lengths for side in (held_out, made)]
    means = [float(lengths.mean()) for lengths in words]
    return {
        "gap_before": moment_gap(real, before),
        "gap_after": moment_gap(real, after),
        "floor": moment_floor(real, moments(fitted), seed=seed),
        "kl_div": compute_kl_divergence(histogram(words[0]), histogram(words[1])),
        # Words are of ASCII letters and digits: a log may have none.
        "length_match": 1 - abs(means[1] - means[0]) / (means[0] or 1.0),
    }


def _packed(user: LoggedUser) -> list[Any]:
    """One user as JSON; tuples become lists, and a gap a list of three."""
    return [user.kind, [list(turn) for turn in user.turns]]


def _unpacked(packed: Sequence[Any]) -> LoggedUser:
    kind, turns = packed
    return LoggedUser(kind, tuple(map(_turn, turns)))


def _turn(packed: Sequence[Any]) -> LoggedTurn:
    acts, slots, pieces, heard = packed
    cut = tuple(piece if isinstance(piece, str) else Gap(*piece) for piece in pieces)
    return LoggedTurn(tuple(acts), tuple(slots), cut, _heard(heard))


def _heard(packed: Sequence[Any]) -> Heard:
    acts, asked, values, text = packed
    return Heard(tuple(acts), tuple(asked), tuple((slot, value) for slot, value in values), text)
