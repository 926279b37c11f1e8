# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A loop that waits for a value that nobody computes is ended, and no other: by the loops' bytecode, and by what they do
while they read."""

import asyncio
import gc
import itertools
import sys
import unittest
import unittest.mock
import weakref

import support

support.need("torch")

import torch  # noqa: E402
from torch_headroom._simulate import placeholders  # noqa: E402

MANY = 12_000  # more reads than a `while` may make


class Loops(unittest.TestCase):
    def setUp(self):
        reads = placeholders._Reads()
        self.reads = 0

        def read():
            """An invented value, as `.item()` gives it: always one."""
            self.reads += 1
            reads.add(0)
            return 1

        self.read = read
        # The frames of this file are the program's, that of read() is not.
        known, placeholders._OURS = placeholders._OURS, placeholders._OURS
        self.addCleanup(setattr, placeholders, "_OURS", known)

    def tearDown(self):
        self.assertIsNone(sys.gettrace())

    def ends_by_itself(self, loop, reads=MANY):
        loop(self.read)
        self.assertEqual(self.reads, reads)

    def is_ended(self, loop, most=11_000):
        with self.assertRaisesRegex(placeholders.EndlessLoop, "this loop has read 1[01],000 placeholder values"):
            loop(self.read)
        self.assertLess(self.reads, most)

    # Loops that end by themselves.

    def test_a_for_with_a_body_of_any_length(self):
        for lines in (1, 60, 600):  # long jumps have prefixes
            body = "\n        ".join(f"a = a + {i}" for i in range(lines))
            names = {}
            exec(f"def loop(read):\n    a = 0\n    for i in range({MANY}):\n        read()\n        {body}", names)
            with self.subTest(lines=lines):
                self.reads = 0
                self.ends_by_itself(names["loop"])

    def test_comprehensions_and_generators(self):
        self.ends_by_itself(lambda read: [read() for _ in range(MANY)])
        self.reads = 0
        self.ends_by_itself(lambda read: sum(read() for _ in range(MANY)))
        self.reads = 0
        self.ends_by_itself(lambda read: {i: read() for i in range(MANY)})

    def test_a_generator_without_an_end_that_another_loop_consumes(self):
        def values(read):
            while True:
                yield read()

        def loop(read):
            for _ in zip(range(MANY), values(read)):
                pass

        self.ends_by_itself(loop)

    def test_functions_inside_of_a_for(self):
        def metric(read):
            return read() > 0

        def loop(read):
            for _ in range(MANY):
                metric(read)

        self.ends_by_itself(loop)

    def test_a_while_that_counts(self):
        def up(read):
            i = 0
            while i < MANY:
                read()
                i += 1

        def down(read):
            rest = MANY
            while rest:
                rest -= 1
                read()

        def with_break(read):
            i = 0
            while True:
                i += 1
                read()
                if i == MANY:
                    break

        def over_a_queue(read):
            queue = list(range(MANY))
            while queue:
                queue.pop()
                read()

        def until_length(read):
            done = []
            while len(done) < MANY:
                done.append(read())

        def over_rows(read):
            x, i = torch.empty(MANY, 1), 0
            while i < x.shape[0] and i < x.size(0):
                i += 1
                read()

        class Counter:
            def __init__(self):
                self.step, self.last = 0, MANY

            def __call__(self, read):
                while self.step < self.last:
                    read()
                    self.step += 1

        for loop in (up, down, with_break, over_a_queue, until_length, over_rows, Counter()):
            with self.subTest(loop=loop):
                self.reads = 0
                self.ends_by_itself(loop)

    def test_short_whiles_in_a_long_for(self):
        def loop(read):
            for _ in range(MANY):
                tries = 0
                while read() and tries < 3:
                    tries += 1

        def in_a_function(read):
            for _ in range(MANY // 2):
                first(read)

        def first(read):
            while True:
                if read():
                    return read()

        self.ends_by_itself(loop, 4 * MANY)
        self.reads = 0
        self.ends_by_itself(in_a_function)

    # Loops that may not.

    def test_a_while_that_waits(self):
        def loop(read):
            while read() > 0:
                pass

        def inside(read):
            while True:
                if read() < 1:
                    break

        def with_functions(read):
            def ready():
                return not read()

            while not ready():
                pass

        def with_a_counter_that_ends_nothing(read):
            step = 0
            while read():
                step += 1
                if step % 100 == 0 or step > 5:
                    step = step + 0

        def far_from_the_end(read):
            step = 0
            while step < 10**12 and read():
                step += 1

        def in_a_for(read):
            for _ in range(3):
                while read():
                    pass

        for loop in (loop, inside, with_functions, with_a_counter_that_ends_nothing, far_from_the_end, in_a_for):
            with self.subTest(loop=loop):
                self.setUp()
                self.is_ended(loop)

    def test_a_coroutine_that_waits(self):
        async def wait(read):
            while read():
                await asyncio.sleep(0)

        def loop(read):
            coroutine = wait(read)
            for _ in itertools.count():
                coroutine.send(None)

        # Its consumer might end it; this one does not, which a later limit finds.
        with unittest.mock.patch.object(placeholders, "_MOST_READS", 15_000):
            with self.assertRaises(placeholders.EndlessLoop):
                loop(self.read)
        self.assertLess(self.reads, 16_000)

    # What is watched stays as it is.

    def test_variables_die_when_the_program_drops_them(self):
        kept = []

        def loop(read):
            tensor = torch.empty(1)
            kept.append(weakref.ref(tensor))
            for i in range(3 * MANY):
                read()
                if i == MANY:
                    del tensor
            for _ in range(10):
                pass
            self.assertIsNone(kept[0]())
            other = torch.empty(1)
            kept.append(weakref.ref(other))
            other = None
            self.assertIsNone(kept[1]())
            return "ended"

        gc.disable()
        try:
            self.assertEqual(loop(self.read), "ended")
        finally:
            gc.enable()

    def test_a_debugger_keeps_its_trace_function(self):
        def trace(*_):
            return None

        sys.settrace(trace)
        try:
            [self.read() for _ in range(MANY)]
            self.assertIs(sys.gettrace(), trace)
        finally:
            sys.settrace(None)


if __name__ == "__main__":
    unittest.main()
