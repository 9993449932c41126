"""Spoils the bytes of a file: blindly, and knowing its format so that the damage lies deep inside.

    spoil(rng, "user.npz", content) ─► (what was done, other content)

Packed files are unpacked, spoiled inside and packed again with right checksums, or else only the
packing is ever tested. Bombs unpack to 64 MiB: enough to tell a reader that has a bound from one
that has none, and no more than any machine has.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

from inject_faults import KINDS as LINE_FAULTS

BOMB = 64 << 20
DEEP = 20_000
INSERTED = (
    b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\n", b"\r\n", b"\n\n\n", b"{", b"}", b"[",
    b'"', b",", b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"[" * DEEP, b'{"a":' * DEEP, b"null",
    b"!!python/object:os.system", b"&a [*a, *a]", b"= 1", b"\\ud800", b"<" * 99, b"\x1f\x8b", b"PK",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 2**63, 10**400, "", "\0", "x" * 10_000, [], {}, [[]], [None],
    {"": None}, "NaN", 3.5, "convgym", [1, "a"], {"format": 1},
)  # fmt: skip
Content = bytes
Spoiled = tuple[str, Content]


def spoil(rng: random.Random, name: str, content: Content) -> Spoiled:
    """What was done, and what came of it; may be the same content, by chance."""
    if rng.random() < 0.04:
        return rng.choice((
            ("empty", b""), ("only zeros", bytes(len(content))), ("only blanks", b" \n \n"),
            ("another format", b"PK\x03\x04" + content), ("one byte", content[:1]),
            ("noise", rng.randbytes(min(len(content), 4096))),
        ))  # fmt: skip
    if rng.random() < 0.6:
        for starts, inside in _INSIDE:
            if content.startswith(starts):
                return inside(rng, name, content)
        made = _in_text(rng, content)
        if made is not None:
            return made
    return _bytes(rng, content)


def _bytes(rng: random.Random, content: Content) -> Spoiled:
    """Whatever the bytes mean."""
    size = len(content)
    at = rng.randrange(size + 1)
    until = min(size, at + rng.choice((1, 2, 8, 64, 1024)))
    kind = rng.randrange(7)
    if kind == 0:
        flipped = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 16)) if size else 0):
            flipped[rng.randrange(size)] ^= 1 << rng.randrange(8)
        return "bits flipped", bytes(flipped)
    if kind == 1:
        return "cut short", content[:at]
    if kind == 2:
        return "bytes left out", content[:at] + content[until:]
    if kind == 3:
        return "bytes twice", content[:until] + content[at:until] + content[until:]
    if kind == 4:
        return "zeros", content[:at] + bytes(until - at) + content[until:]
    if kind == 5:
        return "the beginning left out", content[at:]
    piece = rng.choice(INSERTED)
    return f"{piece[:12]!r} inserted", content[:at] + piece + content[at:]


# -- inside ----------------------------------------------------------------------------------------


def _in_text(rng: random.Random, content: Content) -> Spoiled | None:
    """Inside JSON, or one line of it; None where it is none."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    lines = text.split("\n")
    if text[:1] in "{[":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if value is not None:
            what, other = value_spoiled(rng, value)
            return what, _written(other)
        place = rng.randrange(len(lines))
        kind = rng.choice([*LINE_FAULTS, "value"])
        try:
            if kind == "value":
                what, other = value_spoiled(rng, json.loads(lines[place]))
                made = _written(other)
            else:
                what = kind
                first = json.loads(lines[0]).get("conversation_id", "x")
                made = LINE_FAULTS[kind](lines[place].encode(), first)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return None  # this line was spoiled before, or is of another format
        before, after = ("\n".join(part) for part in (lines[:place], lines[place + 1 :]))
        parts = [before.encode()] * (place > 0) + [made] + [after.encode()] * (
            place + 1 < len(lines)
        )
        return f"{what} in a line", b"\n".join(parts)
    place = rng.randrange(len(lines))
    kinds = rng.randrange(4)
    if kinds == 0:
        lines.insert(place, lines[rng.randrange(len(lines))])
    elif kinds == 1:
        del lines[place]
    elif kinds == 2:
        head, mark, _ = lines[place].partition("=" if "=" in lines[place] else ":")
        lines[place] = head + mark + " " + json.dumps(rng.choice(VALUES))
    else:
        words = lines[place].split(" ")
        words[rng.randrange(len(words))] = json.dumps(rng.choice(VALUES))
        lines[place] = " ".join(words)
    return "a line changed", "\n".join(lines).encode("utf-8", "surrogatepass")


def value_spoiled(rng: random.Random, value: Any) -> tuple[str, Any]:
    """A JSON value with one thing in it gone, doubled, or of another type."""
    places: list[tuple[Any, Any]] = []

    def walk(inner: Any, depth: int) -> None:
        pairs = inner.items() if isinstance(inner, dict) else enumerate(inner)
        for key, part in list(pairs)[:200]:
            places.append((inner, key))
            if isinstance(part, dict | list) and depth < 20:
                walk(part, depth + 1)

    if not isinstance(value, dict | list) or not value:
        return "another value", rng.choice(VALUES)
    walk(value, 0)
    inner, key = rng.choice(places)
    kind = rng.randrange(5)
    if kind == 0:
        del inner[key]
        return "a field left out", value
    if kind == 1 and isinstance(inner, list):
        inner.append(inner[key])
        return "an entry twice", value
    if kind == 2 and isinstance(inner[key], int | float) and not isinstance(inner[key], bool):
        inner[key] = rng.choice((-1, 0, inner[key] + 1, 2**31, 2**63, 10**30, -1e308, 0.5))
        return "another number", value
    if kind == 3 and isinstance(inner, dict):
        inner[f"{key}?"] = inner.pop(key)
        return "a field renamed", value
    inner[key] = rng.choice(VALUES)
    return "a value of another type", value


def _written(value: Any) -> bytes:
    return json.dumps(value).encode()


def _in_gzip(rng: random.Random, name: str, content: Content) -> Spoiled:
    if rng.random() < 0.02:
        return "a bomb", gzip.compress(bytes(BOMB), 6, mtime=0)
    what, inside = spoil(rng, name.removesuffix(".gz"), gzip.decompress(content))
    return f"{what} within gzip", gzip.compress(inside, 1, mtime=0)


def _in_zip(rng: random.Random, name: str, content: Content) -> Spoiled:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    chosen = rng.choice(list(members))
    kind, method = rng.random(), rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    if kind < 0.02:
        members[chosen], method, what = bytes(BOMB), zipfile.ZIP_DEFLATED, "a bomb"
    elif kind < 0.1:
        del members[chosen]
        what = "a member left out"
    elif kind < 0.2:
        members[f"../{chosen}"] = members.pop(chosen)
        what = "a member renamed"
    elif chosen.endswith(".safetensors") and rng.random() < 0.6:
        what, members[chosen] = _in_safetensors(rng, chosen, members[chosen])
    elif members[chosen].startswith(b"\x93NUMPY") and rng.random() < 0.6:
        what, members[chosen] = _in_npy(rng, chosen, members[chosen])
    else:
        what, members[chosen] = spoil(rng, chosen, members[chosen])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for member, inside in members.items():
            archive.writestr(zipfile.ZipInfo(member), inside, method)
    return f"{what} within zip", packed.getvalue()


def _in_safetensors(rng: random.Random, name: str, content: Content) -> Spoiled:
    """The header as JSON, the numbers as they are."""
    end = 8 + int.from_bytes(content[:8], "little")
    what, header = value_spoiled(rng, json.loads(content[8:end]))
    text = _written(header)
    text += b" " * (-len(text) % 8)
    length = len(text) if rng.random() < 0.9 else rng.choice((0, 2**40, 2**63))
    return f"{what} in tensors", length.to_bytes(8, "little") + text + content[end:]


def _in_npy(rng: random.Random, name: str, content: Content) -> Spoiled:
    """Another shape or type in the header."""
    old, new = rng.choice((
        (b"'shape': (", b"'shape': (-"), (b"'shape': (", b"'shape': (9999999999999, "),
        (b"'<f4'", b"'|O' "), (b"'<f4'", b"'<f8'"), (b"'|u1'", b"'|O' "), (b"False", b"True "),
        (b"'descr'", b"'desc?'"),
    ))  # fmt: skip
    return f"{new.decode()} in an array", content.replace(old, new, 1)


_INSIDE: tuple[tuple[bytes, Callable[[random.Random, str, Content], Spoiled]], ...] = (
    (b"\x1f\x8b", _in_gzip),
    (b"PK\x03\x04", _in_zip),
)
