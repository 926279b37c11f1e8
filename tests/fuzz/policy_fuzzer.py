# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes policies at random and reads them with the Python package, whose only error is PolicyError in one line:
PYTHONPATH=packaging/python python3 tests/fuzz/policy_fuzzer.py [SECONDS]
"""

import json
import pathlib
import random
import sys
import tempfile
import time

from torch_headroom._apply.policy import PolicyError, read_policy

_CORPUS = pathlib.Path(__file__).with_name("corpus") / "documents"
_VALUES = (None, True, False, 0, -1, 1 << 70, 0.5, float("nan"), "", "a.b", "é", [], {}, [[]], [{}])


def _changed_value(random_, value):
    """Returns a document with one of its values replaced, removed or doubled."""
    if isinstance(value, (dict, list)) and value and random_.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = random_.choice(keys)
        copied = value.copy()
        what = random_.random()
        if what < 0.1:
            del copied[key]
        elif what < 0.2 and isinstance(value, list):
            copied.insert(key, copied[key])
        else:
            copied[key] = _changed_value(random_, value[key])
        return copied
    return random_.choice(_VALUES)


def _changed_bytes(random_, content):
    content = bytearray(content)
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(content) + 1)
        content[at:at + random_.randint(0, 3)] = random_.randbytes(random_.randint(0, 3))
    return bytes(content)


def main(seconds=10.0, seed=0):
    random_ = random.Random(seed)
    start = (_CORPUS / "policy.json").read_text().removeprefix("p")
    read = runs = 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "policy.json")
        while time.monotonic() < end:
            document = json.loads(start)
            for _ in range(random_.randint(1, 3)):
                document = _changed_value(random_, document)
            content = json.dumps(document).encode()
            file.write_bytes(content if random_.random() < 0.7 else _changed_bytes(random_, content))
            runs += 1
            try:
                read_policy(file)
                read += 1
            except PolicyError as error:
                assert "\n" not in str(error), error
    print(f"{runs} policies, {read} of them read")
    assert runs > read


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
