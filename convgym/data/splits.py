"""Parts of a log that share no conversation, nor the beginning of one.

    conversations ─► groups that must stay together ─► parts of the sizes asked for

    stays together    exact duplicates: the same roles, texts and tool calls
                      a conversation and every longer one that begins with all of it
                      conversations with the same value of `group_by`, if one is named
                      whatever these link, however indirectly

Each group is put, largest first, into a part drawn by how much it still lacks, among those with
room for all of it; the draw hangs on the seed and the members' ids alone, so the order of the
conversations decides nothing. A part misses its share by less than the largest group for each
other part; without groups, by less than one conversation.

A log with conversations that end after a greeting links all that begin with it: take
`min_turns` first. Different last replies to one history, as where people labelled candidates, are
no prefixes of each other: take `group_by=first_user_turn`. Knows nothing of files or rewards.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b

from convgym.conversation import Conversation
from convgym.errors import InvalidConfiguration

GroupBy = str | Callable[[Conversation], Hashable] | None


def split_indices(
    conversations: Sequence[Conversation],
    fractions: Sequence[float],
    seed: int,
    group_by: GroupBy = None,
    least_turns: int = 0,
) -> list[list[int]]:
    """Of each part the indices of its conversations, ascending.

    fractions: the parts' shares, above 0, summing to 1.
    group_by: a key of the metadata, where conversations without it go by themselves; or a
        function of the conversation, where None means the same.
    least_turns: conversations of fewer user turns go by themselves, alike or not.

    Raises InvalidConfiguration for other fractions.
    """
    if not (fractions and min(fractions) > 0 and abs(sum(fractions) - 1) < 1e-9):
        raise InvalidConfiguration(
            f"the fractions are {tuple(fractions)}; they must be above 0 and sum to 1."
        )
    parts: list[list[int]] = [[] for _ in fractions]
    lacking = [fraction * len(conversations) for fraction in fractions]
    draws = [_draw(conversation, seed) for conversation in conversations]
    groups = []
    for members in leakage_groups(conversations, group_by, least_turns):
        # One member's draw: the smallest of a group's would put large groups into the first part.
        named = min(members, key=lambda member: conversations[member].conversation_id)
        groups.append((-len(members), draws[named], members))
    for _, draw, members in sorted(groups):
        part = _chosen(lacking, len(members), draw / 2**64)
        parts[part] += members
        lacking[part] -= len(members)
    return [sorted(part) for part in parts]


def leakage_groups(
    conversations: Sequence[Conversation], group_by: GroupBy = None, least_turns: int = 0
) -> list[list[int]]:
    """The indices of conversations that must stay together, group by group."""
    digests = [
        prefix_digests(one) if sum(1 for _ in one.said_by("user")) >= least_turns else []
        for one in conversations
    ]
    links: dict[Hashable, int] = {}
    parent = list(range(len(conversations)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for index, conversation in enumerate(conversations):
        whole = digests[index][-1] if digests[index] else None
        for name in (("whole", whole), ("group", _group(conversation, group_by))):
            if name[1] is not None:
                parent[root(index)] = root(links.setdefault(name, index))
    for index, beginnings in enumerate(digests):
        for digest in beginnings[:-1]:
            parent[root(index)] = root(links.get(("whole", digest), index))
    groups = defaultdict(list)
    for index in range(len(conversations)):
        groups[root(index)].append(index)
    return list(groups.values())


def prefix_digests(conversation: Conversation) -> list[int]:
    """(M,) after each message a 64-bit digest of all that was said and called so far."""
    so_far, digests = blake2b(digest_size=8), []
    for message in conversation.messages:
        said: list[object] = [message.role, message.content]
        if message.tool_call is not None:
            said.append(message.tool_call)
        so_far.update(json.dumps(said, sort_keys=True).encode("utf-8"))
        digests.append(int.from_bytes(so_far.digest(), "big"))
    return digests


def first_user_turn(conversation: Conversation) -> str | None:
    """What the user said first, for `group_by`; None where nobody did."""
    return next((message.content for message in conversation.said_by("user")), None)


def _group(conversation: Conversation, group_by: GroupBy) -> Hashable:
    if callable(group_by):
        return group_by(conversation)
    value = None if group_by is None else conversation.metadata.get(group_by)
    return value if isinstance(value, Hashable) else json.dumps(value, sort_keys=True)


def _draw(conversation: Conversation, seed: int) -> int:
    """A number below 2^64 that the seed and the id decide."""
    named = f"{seed}:{conversation.conversation_id}".encode()
    return int.from_bytes(blake2b(named, digest_size=8).digest(), "big")


def _chosen(lacking: Sequence[float], size: int, draw: float) -> int:
    """The part for a group of `size`; `draw` in [0, 1)."""
    room = [lack if lack >= size else 0.0 for lack in lacking]
    place = draw * sum(room)
    for part, lack in enumerate(room):
        place -= lack
        if place < 0:
            return part
    return max(range(len(lacking)), key=lacking.__getitem__)  # no part has room
