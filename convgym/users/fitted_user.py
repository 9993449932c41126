"""A user fitted to logs as an environment plays it: base probabilities, and words.

    fit_user(…).to_json("fit.json")     ─┐                     probabilities ─► DecisionModel
    calibrate(…).save("user.npz")       ─┴─► user="path"  ─────► words         ─► Voice.harvested

    realism   0 ────────────── 0.5 ────────────── 1
              the domain's     the log's          the log's
              own              probabilities      probabilities
              words            words              a writer's words

Goals, knowledge and what is legal stay the agenda's: a log says how often and how, not what for.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from convgym.errors import InvalidConfiguration, told
from convgym.language.archive import DAMAGE, read_archive
from convgym.language.harvested_words import HarvestedWords
from convgym.users.decisions import NUMBER, POINTS, DecisionModel
from convgym.users.fit import UserFit

CALIBRATION = "convgym calibration 2"
"""The format of a saved calibration, which has such a user under `USER`."""
USER = "user"


@dataclass(frozen=True, slots=True)
class FittedUser:
    """What a log says of the users of any domain.

    Raises InvalidConfiguration for a decision point that there is not, or no probability.
    """

    bases: Mapping[str, float] = field(default_factory=dict)
    """Base probabilities of decision points; the others keep theirs."""
    words: HarvestedWords = field(default_factory=HarvestedWords)

    def __post_init__(self) -> None:
        DecisionModel(self.bases)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FittedUser:
        """From a saved calibration or a saved `UserFit`; InvalidConfiguration for anything else."""
        if not (os.path.isfile(path) and zipfile.is_zipfile(path)):
            fit = UserFit.from_json(path)
            said = {act: tuple(wordings) for act, wordings in fit.wordings().items()}
            return cls(fit.bases(), HarvestedWords(said))
        about, _ = read_archive(path, CALIBRATION)
        try:
            return cls.from_dict(about[USER])
        except DAMAGE as error:
            raise InvalidConfiguration(
                f"{path} is a damaged calibration ({type(error).__name__}: {told(error)}); save it "
                "again"
            ) from error

    def model(self, realism: float = 0.5) -> DecisionModel:
        """The decisions at this realism, between the domain's own and the log's in logits."""
        share = min(1.0, 2 * realism)
        return DecisionModel(
            {
                name: _sigmoid(
                    (1 - share) * _logit(POINTS[NUMBER[name]].base) + share * _logit(fitted)
                )
                for name, fitted in self.bases.items()
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `from_dict` reads it back."""
        return {"bases": dict(self.bases), "words": self.words.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FittedUser:
        """What `to_dict` gave."""
        bases = {str(name): float(base) for name, base in record["bases"].items()}
        return cls(bases, HarvestedWords.from_dict(record["words"]))


def _logit(probability: float) -> float:
    bounded = min(max(probability, 1e-4), 1 - 1e-4)
    return math.log(bounded / (1 - bounded))


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
