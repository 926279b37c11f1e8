# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The caching allocator's history on the simulated GPU, as PyTorch's own tools and torch-headroom read it."""

import json
import pathlib
import pickle
import platform
import subprocess
import sys
import tempfile
import threading
import unittest

import support
from recorded_script import Recorded

torch = support.simulated("t4-16gb")

from torch.cuda import _memory_viz  # noqa: E402

MIB = 1 << 20
_HEADROOM = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
_FAULTS = pathlib.Path(__file__).with_name("faults")
memory = torch.cuda.memory


def new(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def actions(entries):
    return [(entry["action"], entry["size"]) for entry in entries]


class History(unittest.TestCase):
    def setUp(self):
        torch.cuda.empty_cache()
        memory._record_memory_history(clear_history=True)
        self.addCleanup(memory._record_memory_history, None)

    def entries(self):
        (entries,) = memory._snapshot()["device_traces"]
        return entries

    def test_what_the_allocator_did(self):
        first = new(100)
        large = new(30 * MIB)
        del first
        large.record_stream(torch.cuda.Stream())
        del large
        with self.assertRaises(torch.OutOfMemoryError):
            new(1 << 40)
        torch.cuda.empty_cache()
        entries = self.entries()
        self.assertEqual(actions(entries), [
            ("segment_alloc", 2 * MIB), ("alloc", 100), ("segment_alloc", 30 * MIB), ("alloc", 30 * MIB),
            ("free_requested", 100), ("free_completed", 100), ("free_requested", 30 * MIB), ("free_completed", 30 * MIB),
            ("segment_free", 30 * MIB), ("segment_free", 2 * MIB), ("oom", 1 << 40),
        ])
        self.assertEqual(len({entry["addr"] for entry in entries if entry["size"] == 100}), 1)
        self.assertIn("device_free", entries[-1])
        times = [entry["time_us"] for entry in entries]
        self.assertEqual(times, sorted(times))
        self.assertEqual(actions(self.entries())[-1][0], "snapshot")

    def test_stacks_are_those_of_the_program(self):
        def allocate_here():
            return new(3 * MIB)

        memory._record_memory_history(stacks="python", clear_history=True)
        held = allocate_here()
        snapshot = memory._snapshot()
        (allocation,) = [e for e in snapshot["device_traces"][0] if e["action"] == "alloc"]
        (block,) = [b for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
        for frames in (allocation["frames"], block["frames"], snapshot["segments"][0]["frames"]):
            self.assertEqual([frame["name"] for frame in frames[:2]], ["new", "allocate_here"])
            self.assertEqual(frames[0]["filename"], __file__)
            self.assertGreater(frames[0]["line"], 0)
        del held

    def test_stacks_of_frees(self):
        def allocate_here():
            return [new(3 * MIB)]

        def free_here(held):
            held.clear()

        def free_the_rest_here():
            torch.cuda.empty_cache()

        frees = {}
        for context in "all", "alloc", "state":
            torch.cuda.empty_cache()
            memory._record_memory_history(context=context, stacks="python", clear_history=True)
            free_here(allocate_here())
            free_the_rest_here()
            frees[context] = {entry["action"]: {frame["name"] for frame in entry["frames"]} & {
                "allocate_here", "free_here", "free_the_rest_here"} for entry in self.entries()}
        self.assertEqual(frees["all"], {
            "segment_alloc": {"allocate_here"}, "alloc": {"allocate_here"}, "free_requested": {"free_here"},
            "free_completed": {"free_here"}, "segment_free": {"free_the_rest_here"}})
        # Without stacks of frees, these have the stack of what they free, as on the card.
        self.assertEqual(set(map(frozenset, frees["alloc"].values())), {frozenset({"allocate_here"})})
        self.assertEqual(set(map(frozenset, frees["state"].values())), {frozenset()})

    def test_stacks_of_frees_in_other_threads(self):
        # Autograd's thread frees without Python's lock while others hold it.
        stop = threading.Event()

        def hold():
            while not stop.is_set():
                for _ in range(50):
                    new(512)

        threads = [threading.Thread(target=hold) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(20))).cuda()
            for _ in range(20):
                model(torch.ones(4, 64, device="cuda")).sum().backward()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertTrue(all(entry["frames"] for entry in self.entries() if entry["action"] == "alloc"))

    @unittest.skipUnless(sys.platform == "linux" and platform.machine() == "x86_64", "PyTorch unwinds C++ only there")
    def test_stacks_of_cpp(self):
        for stacks in "all", "python":
            memory._record_memory_history(stacks=stacks, clear_history=True)
            held = torch.rand(128, 128, device="cuda")
            del held
            names = [frame["name"] for entry in self.entries() for frame in entry["frames"]]
            self.assertIn("test_stacks_of_cpp", names)
            self.assertEqual(any("::rand" in name for name in names), stacks == "all")
            self.assertFalse([name for name in names if "headroom::" in name])

    def test_options(self):
        memory._record_memory_history(max_entries=3, clear_history=True)
        for size in range(1, 6):
            new(size)
        self.assertEqual(actions(self.entries()), [("alloc", 5), ("free_requested", 5), ("free_completed", 5)])
        memory._record_memory_history(context=None, clear_history=True, skip_actions=["free_requested"])
        new(7)
        self.assertEqual([(*a, ) for a in actions(self.entries())], [("alloc", 7), ("free_completed", 7)])
        self.assertEqual(self.entries()[0]["frames"], [])
        memory._record_memory_history(context="state", clear_history=True)
        held = new(8)
        self.assertEqual([entry["frames"] for entry in self.entries()], [[]])
        self.assertTrue(torch.cuda.memory_snapshot()[0]["blocks"][0]["frames"])
        del held
        memory._record_memory_history("state", clear_history=True)
        held = new(9)
        self.assertEqual(self.entries(), [])
        self.assertTrue(torch.cuda.memory_snapshot()[0]["blocks"][0]["frames"])
        memory._record_memory_history(None)
        self.assertEqual(self.entries(), [])
        with self.assertRaisesRegex(RuntimeError, "expected"):
            memory._record_memory_history("everything")
        del held

    def test_a_text_of_the_program(self):
        memory._set_memory_metadata("epoch 3")
        self.assertEqual(memory._get_memory_metadata(), "epoch 3")
        held = new(1)
        memory._set_memory_metadata("")
        self.assertEqual([e["user_metadata"] for e in self.entries() if e["action"] == "alloc"], ["epoch 3"])
        del held

    def test_pytorchs_own_tools(self):
        model = torch.nn.Linear(256, 256).cuda()
        model(torch.ones(4, 256, device="cuda")).sum().backward()
        snapshot = memory._snapshot()
        self.assertIn("segment", _memory_viz.segsum(snapshot))
        self.assertIn("alloc(", _memory_viz.trace(snapshot))
        for plot in (_memory_viz.trace_plot, _memory_viz.segment_plot):
            self.assertIn("<script", plot(snapshot))

    @unittest.skipUnless(_HEADROOM, "needs the path of torch-headroom")
    def test_the_history_replays(self):
        from torch import nn

        memory._set_allocator_settings("expandable_segments:False")
        model = nn.Sequential(*(nn.Linear(500, 500) for _ in range(8))).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        side = torch.cuda.Stream()
        for step in range(4):
            batch = torch.randn(100 * (1 + step % 2), 500, device="cuda")
            batch.record_stream(side)
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 2:
                torch.cuda.empty_cache()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "snapshot.pickle"
            memory._dump_snapshot(str(path))
            pickle.loads(path.read_bytes())
            result = subprocess.run([_HEADROOM, "allocator", path, "--json"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        recorded = json.loads(result.stdout)["recorded"]
        self.assertGreater(recorded["events"], 300)
        self.assertEqual(recorded["same_reserved"], recorded["events"])
        self.assertEqual(recorded["same_address"], recorded["allocations"])


class Scripts(Recorded):
    def test_a_script_that_dumps_a_snapshot(self):
        result = self.run_script(_FAULTS / "history_script.py", "--strict", "--steps", "9")
        self.assertEqual(result.returncode, 0, result.stderr)
        snapshot = pickle.loads((pathlib.Path(self.folder.name) / "snap.pickle").read_bytes())
        frames = [f for e in snapshot["device_traces"][0] if e["action"] == "alloc" for f in e["frames"]]
        self.assertIn("history_script.py", {pathlib.Path(frame["filename"]).name for frame in frames})

    @unittest.skipUnless(_HEADROOM, "needs the path of torch-headroom")
    def test_a_card_that_is_full_in_the_first_step_alone(self):
        gpu = "rtx-3060-12gb"
        result = self.run_script(_FAULTS / "k_retry.py", "--gpu", gpu, "--steps", "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line for line in result.stdout.splitlines() if line.startswith("retries")], ["retries 1"] * 2)
        command = [_HEADROOM, "allocator", self.step, "--gpu", gpu, "--json"]
        said = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        replayed = json.loads(said.stdout)
        self.assertEqual((replayed["retries"], replayed["out_of_memory"]), (0, None))


class OutOfMemory(unittest.TestCase):
    def test_observers(self):
        seen = []
        torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: seen.append(arguments))
        held = new(1 << 30)
        free, total = torch.cuda.mem_get_info()
        with self.assertRaises(torch.OutOfMemoryError):
            new(1 << 40)
        torch.cuda.set_per_process_memory_fraction(0.5)
        self.addCleanup(torch.cuda.set_per_process_memory_fraction, 1.0)
        with self.assertRaises(torch.OutOfMemoryError):
            new(1 << 41)
        self.assertEqual(seen, [(0, 1 << 40, total, free), (0, 1 << 41, total // 2, free)])
        del held


if __name__ == "__main__":
    unittest.main()
