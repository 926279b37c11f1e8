# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What torch.cuda.memory says on the simulated GPU, against numbers worked out by hand from the rules of CUDA's caching
allocator: blocks are multiples of 512 bytes; up to 1 MiB they lie in segments of 2 MiB, below 10 MiB in ones of 20 MiB,
from there on in their own, rounded up to 2 MiB; what is left of a large block is split off if it is more than 1 MiB."""

import json
import unittest

import support

torch = support.simulated("h200-141gb")

KIB = 1 << 10
MIB = 1 << 20
CARD = torch.cuda.get_device_properties(0).total_memory
USABLE = CARD - (520 + 2 * 32 + 1) * MIB  # without CUDA's context and the workspaces of cuBLAS and cuBLASLt


def new(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def number(name, pool="all", which="current"):
    return torch.cuda.memory_stats()[f"{name}.{pool}.{which}"]


class Memory(unittest.TestCase):
    def setUp(self):
        torch.cuda.empty_cache()
        torch.cuda.reset_accumulated_memory_stats()
        torch.cuda.reset_peak_memory_stats()
        self.assertEqual((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()), (0, 0))

    def test_record_stream(self):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            used, own = new(30 * MIB), new(30 * MIB)
        used.record_stream(torch.cuda.current_stream())
        own.record_stream(side)  # the stream of its allocation reuses it in order
        del own
        self.assertEqual(number("active_bytes"), 30 * MIB)
        del used
        self.assertEqual((torch.cuda.memory_allocated(), number("active_bytes")), (0, 30 * MIB))
        blocks = [block["state"] for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
        self.assertEqual(sorted(blocks), ["active_pending_free", "inactive"])
        new(1)  # an allocation asks which streams are done: all are here
        self.assertEqual((number("active_bytes"), torch.cuda.memory_reserved()), (0, 62 * MIB))
        again = new(30 * MIB)
        self.assertEqual(torch.cuda.memory_reserved(), 92 * MIB)  # the free ones belong to the other stream
        again.record_stream(side)
        again.untyped_storage().resize_(0)
        self.assertEqual((torch.cuda.memory_allocated(), number("active_bytes")), (0, 30 * MIB))
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), 0)

    def test_segments_of_each_size(self):
        for size, block, segment in (
            (1, 512, 2 * MIB),
            (512, 512, 2 * MIB),
            (513, 1024, 2 * MIB),
            (MIB, MIB, 2 * MIB),
            (MIB + 1, MIB + 512, 20 * MIB),
            (10 * MIB - 1, 10 * MIB, 10 * MIB),  # rounded to a block first, which is not below 10 MiB
            (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB, 10 * MIB),
            (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
            (11 * MIB, 12 * MIB, 12 * MIB),  # 1 MiB is not split off
            (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),
            (21 * MIB + 1, 22 * MIB, 22 * MIB),
        ):
            with self.subTest(size=size):
                held = new(size)
                pool, other = ("small_pool", "large_pool") if size <= MIB else ("large_pool", "small_pool")
                self.assertEqual(torch.cuda.memory_allocated(), block)
                self.assertEqual(torch.cuda.memory_reserved(), segment)
                self.assertEqual(number("requested_bytes", pool), size)
                self.assertEqual(number("reserved_bytes", pool), segment)
                self.assertEqual(number("inactive_split_bytes", pool), segment - block)
                self.assertEqual(number("reserved_bytes", other, "allocated"), 0)
                self.assertEqual(torch.cuda.mem_get_info(), (USABLE - segment, CARD))
                del held
                self.assertEqual(torch.cuda.memory_allocated(), 0)
                self.assertEqual(torch.cuda.memory_reserved(), segment, "it is kept")
                torch.cuda.empty_cache()
                torch.cuda.reset_accumulated_memory_stats()

    def test_splitting_merging_and_peaks(self):
        first, second = new(3 * MIB), new(4 * MIB)  # of one segment of 20 MiB
        self.assertEqual(torch.cuda.memory_reserved(), 20 * MIB)
        self.assertEqual((number("inactive_split"), number("inactive_split_bytes")), (1, 13 * MIB))
        del first  # between the segment's begin and the second: a piece of its own
        self.assertEqual((number("inactive_split"), number("inactive_split_bytes")), (2, 16 * MIB))
        third = new(2 * MIB)  # the smallest piece that fits is that of 3 MiB, of which 1 MiB is left, too little to split
        self.assertEqual(torch.cuda.memory_allocated(), 7 * MIB)
        self.assertEqual(number("requested_bytes"), 6 * MIB)
        del second
        self.assertEqual(number("inactive_split_bytes"), 17 * MIB)
        self.assertEqual(torch.cuda.max_memory_allocated(), 7 * MIB)
        self.assertEqual((number("active", which="peak"), number("active_bytes", which="peak")), (2, 7 * MIB))
        torch.cuda.reset_peak_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), 3 * MIB)
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), 20 * MIB, "a part of the segment is in use")
        del third
        self.assertEqual((number("inactive_split"), number("inactive_split_bytes")), (0, 0))
        self.assertEqual(torch.cuda.max_memory_reserved(), 20 * MIB)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.assertEqual((torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()), (0, 0))
        self.assertEqual([number("allocation", which=w) for w in ("current", "allocated", "freed")], [0, 3, 3])
        self.assertEqual([number("segment", which=w) for w in ("current", "allocated", "freed")], [0, 1, 1])
        self.assertEqual([number("allocated_bytes", which=w) for w in ("allocated", "freed")], [10 * MIB, 10 * MIB])
        stats = torch.cuda.memory_stats()
        self.assertEqual((stats["num_device_alloc"], stats["num_device_free"]), (1, 1))
        self.assertEqual(stats["num_sync_all_streams"], 2, "one for each empty_cache()")
        torch.cuda.reset_accumulated_memory_stats()
        self.assertEqual(torch.cuda.memory_stats()["num_device_free"], 0)

    def test_snapshot(self):
        small, gone, large = new(100), new(KIB), new(30 * MIB)
        del gone
        segments = sorted(torch.cuda.memory_snapshot(), key=lambda segment: segment["total_size"])
        blocks = [[(b["size"], b["requested_size"], b["state"]) for b in s["blocks"]] for s in segments]
        self.assertEqual(
            blocks,
            [
                [(512, 100, "active_allocated"), (2 * MIB - 512, 0, "inactive")],
                [(30 * MIB, 30 * MIB, "active_allocated")],
            ],
        )
        sizes = ("total_size", "allocated_size", "active_size", "requested_size", "segment_type", "stream", "device")
        self.assertEqual(
            [[segment[name] for name in sizes] for segment in segments],
            [[2 * MIB, 512, 512, 100, "small", 0, 0], [30 * MIB] * 4 + ["large", 0, 0]],
        )
        for segment in segments:
            places = [block["address"] for block in segment["blocks"]]
            self.assertEqual(places[0], segment["address"])
            self.assertEqual(places, sorted(places))
        json.dumps(segments)
        self.assertIn("2048 KiB", torch.cuda.memory_summary())
        del small, large

    def test_a_full_card(self):
        kept, cached = new(40 * MIB), new(50 * MIB)
        del cached
        with self.assertRaises(torch.OutOfMemoryError):
            new(CARD)
        # Before it gave up, it gave back what was cached, and tried again.
        self.assertEqual(torch.cuda.memory_reserved(), 40 * MIB)
        stats = torch.cuda.memory_stats()
        self.assertEqual((stats["num_ooms"], stats["num_alloc_retries"], stats["num_device_free"]), (1, 1, 1))
        torch.cuda.set_per_process_memory_fraction(0.5)
        with self.assertRaises(torch.OutOfMemoryError):
            new(CARD // 2)
        torch.cuda.set_per_process_memory_fraction(1.0)
        rest = new((USABLE - 40 * MIB) // (2 * MIB) * 2 * MIB)
        self.assertEqual(torch.cuda.memory_stats()["num_ooms"], 2)
        del kept, rest


if __name__ == "__main__":
    unittest.main()
