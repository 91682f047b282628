"""Ways to damage files: as disks and cables do it, and as an enemy would, who makes all checksums right again.

Each takes the bytes of a file and a `random.Random`, and returns other bytes.
"""

import copy
import hashlib
import io
import json
import re
import zipfile

import numpy as np

SENTINEL = "fuzz_sentinel"  # a module that no reading of a file may import
ODD = [
    *(None, True, -1, 0, 1, 2, 2**31, 2**63, -(2**70), 2**127, 10**25, 1e308, -1e308, 1e150, 1e-308, -1e-308, 0.5),
    *("", "x", "inf", "nan", "../x", "\ud800", "a" * 5000, f"{SENTINEL}:Trap-v0", "CartPole-v1", "oil", "tessera"),
    *([], [1], [[]], {}, {"a": 1}, {"()": [1]}),
]


# By accident ------------------------------------------------------------------------------------------------


def flip(data, dice):
    """Flip bits."""
    data = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def cut(data, dice):
    """Lose the end."""
    return data[: dice.randrange(len(data))]


def double(data, dice):
    """Repeat a part, or lose it."""
    at = dice.randrange(len(data))
    return data[:at] + data[max(0, at - dice.randrange(-200, 200)) :]


def blank(data, dice):
    """Overwrite a part with zeros."""
    at = dice.randrange(len(data))
    count = min(dice.randrange(1, 500), len(data) - at)
    return data[:at] + bytes(count) + data[at + count :]


ACCIDENTS = [flip, cut, double, blank]


# JSON -------------------------------------------------------------------------------------------------------


def find_places(value, path=()):
    """Yield the path of every field within a value of JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield (*path, name)
        yield from find_places(each, (*path, name))


def edit_value(value, dice, skip=()):
    """Change one field of a value of JSON in place, any of them as likely within each top-level key."""
    places = [path for path in find_places(value) if path[0] not in skip]
    if not places:
        return
    first = dice.choice(sorted({str(path[0]) for path in places}))
    where = dice.choice([path for path in places if str(path[0]) == first])
    inner = value
    for name in where[:-1]:
        inner = inner[name]
    old, how = inner[where[-1]], dice.random()
    if how < 0.12:
        del inner[where[-1]]
    elif how < 0.3 and type(old) in (int, float):
        inner[where[-1]] = old + dice.choice((-1, 1, 0.5, 1e9, -1e9))
    elif how < 0.36:
        other = dice.choice(places)
        source = value
        for name in other:
            source = source.get(name) if isinstance(source, dict) else source[name] if name in range(99) else None
            if source is None:
                break
        inner[where[-1]] = json.loads(json.dumps(source))
    elif how < 0.4 and isinstance(inner, list):
        inner.append(json.loads(json.dumps(old)))
    elif how < 0.42:
        for _ in range(dice.choice((20, 60, 500))):
            old = [old] if dice.random() < 0.5 else {"a": old}
        inner[where[-1]] = old
    else:
        inner[where[-1]] = copy.deepcopy(dice.choice(ODD))


def edit_json(data, dice):
    """Change one or two fields."""
    value = json.loads(data)
    for _ in range(dice.choice((1, 1, 2))):
        edit_value(value, dice)
    return json.dumps(value).encode()


LITERALS = ["NaN", "-Infinity", "1e999", "1" * 5000, "1" * 4000, "[" * 100_000, '{"a":' * 5000, "-0", '"\\ud800"']


def edit_text(data, dice):
    """Put what JSON or TOML should not have in place of a number or word."""
    text = data.decode()
    marks = [at for at, letter in enumerate(text) if letter.isalnum()]
    at = end = dice.choice(marks)
    while end < len(text) and (text[end].isalnum() or text[end] in ".-_"):
        end += 1
    return (text[:at] + dice.choice(LITERALS) + text[end:]).encode("utf-8", "surrogatepass")


JSON_EDITS = [edit_json, edit_json, edit_json, edit_text]


# Agent files ------------------------------------------------------------------------------------------------


def read_members(data):
    """Return the members of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(members, sign=True, method=zipfile.ZIP_DEFLATED):
    """Return an archive of members, with right lengths and checksums unless told otherwise."""
    if sign:
        head = json.loads(members["agent.json"])
        if isinstance(head, dict) and isinstance(head.get("arrays"), dict):
            for name, data in members.items():
                if name.endswith(".npy"):
                    digest = hashlib.sha256(data).hexdigest()
                    head["arrays"][name[:-4]] = {"bytes": len(data), "sha256": digest}
        members = members | {"agent.json": json.dumps(head).encode()}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def to_npy(array):
    """Return an array as the bytes of a `.npy` file."""
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def edit_head(data, dice):
    """Change one or two fields of `agent.json`."""
    members = read_members(data)
    head = json.loads(members["agent.json"])
    for _ in range(dice.choice((1, 1, 2))):
        edit_value(head, dice, skip=() if dice.random() < 0.1 else ("arrays",))
    return pack(members | {"agent.json": json.dumps(head).encode()}, sign=dice.random() < 0.9)


def edit_head_text(data, dice):
    """Put what JSON should not have into `agent.json`."""
    members = read_members(data)
    return pack(members | {"agent.json": edit_text(members["agent.json"], dice)}, sign=False)


_FLOATS = [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 1e150, -1e150, 1e100, -1e100, -1.0, 0.0, -0.0, 5e-324, 0.3, 2.0]


def _edit_numbers(numbers, dice):
    """Change numbers `[n]` of one kind in place: one, a part or all of them."""
    how, at = dice.random(), dice.randrange(len(numbers))
    part = slice(at, at + 1) if how < 0.6 else slice(at, None) if how < 0.75 else slice(None)
    change = dice.random()
    if change < 0.15:
        numbers[part] = numbers[dice.randrange(len(numbers))]
    elif change < 0.25:
        numbers[part] = numbers[part][::-1].copy()
    elif numbers.dtype.kind == "f":
        value = dice.choice(_FLOATS)
        numbers[part] = numbers[part] + dice.choice((-1, 1, 1e-12)) if change < 0.4 else value
        if change > 0.9:
            numbers[part][::2] *= -1.0
    else:
        ends = np.iinfo(numbers.dtype)
        if change < 0.6:
            step = dice.choice((-1, 1, 2, 100))
            changed = numbers[part].astype(object) + step
            numbers[part] = np.array([min(max(int(each), ends.min), ends.max) for each in changed], numbers.dtype)
        else:
            value = dice.choice((ends.min, ends.max, 0, 1, 2, 77, -1, -2, len(numbers), len(numbers) - 1))
            numbers[part] = min(max(value, ends.min), ends.max)


def edit_array(data, dice):
    """Change the numbers of one or two fields of arrays."""
    members = read_members(data)
    for _ in range(dice.choice((1, 1, 1, 2))):
        name = dice.choice(sorted(name for name in members if name.endswith(".npy")))
        array = np.load(io.BytesIO(members[name])).copy()
        if array.size:
            column = array[dice.choice(array.dtype.names)] if array.dtype.names else array
            flat = column.reshape(-1).copy()
            _edit_numbers(flat, dice)
            column[...] = flat.reshape(column.shape)
            members[name] = to_npy(array)
    return pack(members)


def _make_header(descr, shape, dice):
    order = dice.choice(("False", "False", "True"))
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY" + dice.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0")) + len(text).to_bytes(2, "little") + text


def edit_header(data, dice):
    """Give an array another header: of another shape or type, unreadable, or of something to be executed."""
    members = read_members(data)
    name = dice.choice(sorted(name for name in members if name.endswith(".npy")))
    body = members[name][128:]
    descr = dice.choice(("'<f8'", "'<f8'", "'|O'", "'<f4'", "'>f8'", "'|V0'", "'<U9'", "'<M8[s]'", "[('a', '<i4')]"))
    shape = dice.choice((f"({10 ** dice.randrange(3, 18)},)", "(3L", "(-1,)", "()", "(0,)", "(" * 5000, "(2**9,)", "x"))
    if dice.random() < 0.2:
        body = b"cos\nsystem\n(S'exit 9'\ntR."
    elif dice.random() < 0.2:
        shape = f"({len(body) // 8},)"
    return pack(members | {name: _make_header(descr, shape, dice) + body})


def edit_type(data, dice):
    """Change the letters of the type of an array in its header, which stays right otherwise."""
    members = read_members(data)
    name = dice.choice(sorted(name for name in members if name.endswith(".npy")))
    head, body = members[name][:128], members[name][128:]
    kind = dice.choice(re.findall(rb"'[<|]\w\d'", head))
    letters = dice.choice("<|>="), dice.choice("fiubcVSOmM"), dice.choice("124890")
    mixed = (new if dice.random() < 0.5 else old for new, old in zip(letters, kind[1:4].decode(), strict=True))
    other = f"'{''.join(mixed)}'"
    size = max(1, int(other[3]))
    members[name] = head.replace(kind, other.encode()) + body
    if b"[(" not in head and len(body) % size == 0:  # as many as there are bytes
        text = f"{{'descr': {other}, 'fortran_order': False, 'shape': ({len(body) // size},), }}"
        members[name] = head[:10] + text.encode().ljust(117) + b"\n" + body
    return pack(members)


def edit_shape(data, dice):
    """Shorten, repeat, convert or exchange an array."""
    members = read_members(data)
    names = sorted(name for name in members if name.endswith(".npy"))
    name, how = dice.choice(names), dice.randrange(6)
    array = np.load(io.BytesIO(members[name]))
    if how == 0:
        array = array[: len(array) // 2]
    elif how == 1:
        array = np.concatenate([array, array])
    elif how == 2:
        array = array.astype(np.float32) if not array.dtype.names else np.zeros(3)
    elif how == 3:
        array = array.reshape(1, *array.shape)
    elif how == 4:
        array = array[:0]
    else:
        array = np.load(io.BytesIO(members[dice.choice(names)]))
    return pack(members | {name: to_npy(array)})


def edit_members(data, dice):
    """Rename, lose, add or exchange members."""
    members = read_members(data)
    name, how = dice.choice(sorted(members)), dice.randrange(4)
    if how == 0:
        members["../escaped.npy"] = members.pop(name)
    elif how == 1:
        del members[name]
    elif how == 2:
        members["more.npy"] = members[name]
    else:
        other = dice.choice(sorted(members))
        members[name], members[other] = members[other], members[name]
    sign = how == 3 and dice.random() < 0.5 and "agent.json" not in (name, other)
    return pack(members, sign=sign)


def make_bomb(data, dice):
    """Make a file that unpacks to far more than it says, or than it should."""
    if dice.random() < 0.5:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", dice.choice((8, 12, 14))) as archive:
            archive.writestr("agent.json", bytes(40 << 20))
        bomb = bytearray(out.getvalue())
        for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
            at = bomb.index(mark) + place
            bomb[at : at + 4] = (100).to_bytes(4, "little")
        return bytes(bomb)
    members = read_members(data)
    name = dice.choice(sorted(members))
    return pack(members | {name: members[name] + bytes(dice.choice((1 << 20, 40 << 20)))}, sign=False)


def make_splicer(others):
    """Return a mutation that puts arrays or parts of the head of other files in, with right checksums."""

    def splice(data, dice):
        """Put an array, or a part of the head, of another file in."""
        members, donor = read_members(data), read_members(others[dice.choice(sorted(others))])
        if dice.random() < 0.3:
            head, other = json.loads(members["agent.json"]), json.loads(donor["agent.json"])
            key = dice.choice(["problem", "parameters", "algorithm", "content", "evaluation", "numbers"])
            head[key] = other.get(key)
            head["seed"] = head["parameters"].get("seed") if isinstance(head["parameters"], dict) else head["seed"]
            return pack(members | {"agent.json": json.dumps(head).encode()})
        name = dice.choice(sorted(name for name in members if name.endswith(".npy")))
        same = name if name in donor else dice.choice(sorted(each for each in donor if each.endswith(".npy")))
        return pack(members | {name: donor[same]})

    return splice


def agent_edits(others):
    """Return the mutations of agent files, the more frequent ones several times."""
    rare = [edit_head_text, edit_members, edit_shape, make_splicer(others)]
    return [*[edit_array] * 8, *[edit_head] * 5, *rare, edit_header, edit_type, *ACCIDENTS[:2], *([make_bomb] * 0)]
