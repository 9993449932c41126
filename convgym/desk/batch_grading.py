"""The verdict on integer rows: what there is to show for each request, and what that is worth.

How many pieces of evidence there are, each on top of those before it, is a request's level, 0 to 4.
The sums over the levels of an episode's requests are tables, made by `convgym.engine.grading`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.batch_case import hold, is_read
from convgym.desk.batch_tables import ALLOWED, REFUSED, TRANSFERS
from convgym.engine.batch import Cells, record
from convgym.engine.grading import Evidence, grade
from convgym.engine.kernel import kernel
from convgym.users.user_batch import (
    MOST_REQUESTS,
)

MOST_EVIDENCE = 4
LEVELS = MOST_EVIDENCE + 1


def grades() -> NDArray[np.void]:
    """`graded` and `progress` of a clean episode by number of requests, then the level of each."""
    shape = (MOST_REQUESTS, *(LEVELS,) * MOST_REQUESTS)
    graded, progress = np.zeros(shape), np.zeros(shape)
    for asked in range(1, MOST_REQUESTS + 1):
        for levels in product(range(LEVELS), repeat=asked):
            every = [
                grade(Evidence._make([*(level > at for at in range(MOST_EVIDENCE)), True]))
                for level in levels
            ]
            at = (asked - 1, *levels, *(0,) * (MOST_REQUESTS - asked))
            graded[at] = sum(one.graded for one in every) / asked
            progress[at] = sum(one.progress for one in every) / asked
    return record(graded=graded, progress=progress)


@kernel
def grade_row(T: Any, G: Any, e: Any, t: Any, b: Cells) -> None:
    """Evidence of this episode as it stands, over all of its requests.

    Whoever has broken nothing has changed only what was asked for, so its diff is the right one
    where no change is missing that an earlier request asked for.
    """
    e.levels[e.desk_at] = evidence(T, e, t, b)
    clean = e.violations == 0
    for at in range(e.desk_at):
        if t.effect[at] == ALLOWED and T.write_of[t.workflow[at]] >= 0:
            clean = clean and e.made >> at & 1 == 1
    e.success = 0
    e.graded = e.progress = 0.0
    if clean:
        last, levels = t.requests - 1, e.levels
        e.graded = G.graded[last, levels[0], levels[1], levels[2]]
        e.progress = G.progress[last, levels[0], levels[1], levels[2]]
        e.success = 1
        for at in range(t.requests):
            if levels[at] < MOST_EVIDENCE:
                e.success = 0


@kernel
def evidence(T: Any, e: Any, t: Any, b: Cells) -> int:
    """The level of the request the episode is at."""
    at = e.desk_at
    w = t.workflow[at]
    if t.reason[at] == T.unverified:
        authenticated = was_read = b[T.failures] >= 2
    else:
        authenticated = e.account == t.account and b[T.authenticated] != 0
        was_read = is_read(T, e, t, b)
    if not authenticated:
        return 0
    if not was_read:
        return 1
    reasons = 0
    for reason in range(T.n_denied):
        reasons += b[T.denied[reason]]
    if t.effect[at] == REFUSED:
        # Naming every reason there is, the right one among them, is no reason; nor is offering
        # everything an offer. Others that hold as well may be named beside it.
        decided = e.decided_right != 0 and not named_falsely(T, e, t, b)
        offers = 0
        for offer in range(T.n_offered):
            offers += b[T.offered[offer]]
        told = e.taken >> at & 1 == 1 and offers == (t.alternative[at] >= 0)
    elif t.effect[at] == TRANSFERS:
        decided = e.handed_over != 0 and e.decided_right != 0
        told = reasons == 0
    elif T.facts_of[w]:
        decided = e.facts_told & T.facts_of[w] != 0
        told = e.facts_told & T.facts_of[w] == T.facts_of[w] and reasons == 0
    else:
        # Who refuses first, to see whether the customer puts up with it, has not decided.
        decided = e.decided_right != 0
        told = b[T.told_done] != 0 and reasons == 0
    if not decided:
        return 2
    return 4 if told else 3


@kernel
def named_falsely(T: Any, e: Any, t: Any, b: Cells) -> bool:
    """Whether a reason was named that does not hold for what is asked."""
    at = e.desk_at
    w = t.workflow[at]
    kind = T.kind[w]
    place = np.int64(t.row[at])
    if kind >= 0:
        place += T.base[kind]
    for reason in range(T.n_denied):
        if b[T.denied[reason]] and reason != t.reason[at]:
            holds = False
            for r in range(T.n_rules[w]):
                if T.rule_refuses[w, r] and T.rule_reason[w, r] == reason:
                    if t.new_rules or not T.rule_held_out[w, r]:
                        first, last = T.rule_from[w, r], T.rule_to[w, r]
                        detail = t.detail[at]
                        if hold(T, t, first, last, t.account, place, np.int64(1), np.int64(detail)):
                            holds = True
            if not holds:
                return True
    return False
