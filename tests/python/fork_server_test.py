# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fork server: a recording in a fork is the recording of a process of its own, or there is none in a fork.

    fork_server_test.py HEADROOM
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import support

support.need("torch")

from recorded_script import ForkServer  # noqa: E402
from torch_headroom._record.fork_server import record_at  # noqa: E402

HEADROOM = sys.argv.pop(1)
_GPU = "t4-16gb"
# Writes whether torch.optim's imports were there before the script.
_SCRIPT = """
    import os, sys
    with open(os.environ.get("STARTS", os.devnull), "a") as file:
        print("fork" if "torch._dynamo" in sys.modules else "process", file=file)
    import torch
    model = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True) for _ in range(2))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    def train(batch):
        for _ in range(3):
            model(torch.randn(batch, 64, 64, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
"""


class Served(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.starts = self.folder / "starts"

    def script(self, *lines, name="train.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(_SCRIPT) + "\n".join(lines) + "\n")
        return path

    def in_fork(self, words, step="fork.hrs"):
        with open(self.folder / "printed", "w") as printed:
            return record_at(self.folder, _GPU, ["-o", self.folder / step, "--gpu", _GPU, *words], printed, printed,
                             self.folder)

    def in_process(self, words, step="process.hrs"):
        subprocess.run([sys.executable, "-m", "torch_headroom.record", "-o", self.folder / step, "--gpu", _GPU, *words],
                       cwd=self.folder, check=True, capture_output=True)


class Recordings(Served):
    def test_are_those_of_a_process_and_failures_do_not_end_the_server(self):
        script = self.script("train(int(sys.argv[1]))")
        with ForkServer(self.folder, _GPU) as server:
            self.assertTrue(server.wait())
            for batch in "2", "3":
                self.assertEqual(self.in_fork([script, batch]), 0)
                self.in_process([script, batch])
                self.assertEqual(*((self.folder / step).read_bytes() for step in ("fork.hrs", "process.hrs")))
            self.assertEqual(self.in_fork([script, "no number"]), 2)
            self.assertIn("train.py raised ValueError", (self.folder / "printed").read_text())
            killed = self.script("os.kill(os.getpid(), 9)", name="killed.py")
            self.assertEqual(self.in_fork([killed]), -9)
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
            self.addCleanup(os.environ.pop, "PYTORCH_CUDA_ALLOC_CONF")
            self.assertIsNone(self.in_fork([script, "2"]), "torch would not read the variable again")
        self.assertIsNone(self.in_fork([script, "2"]), "the server has ended")

    def test_end_with_the_client(self):
        script = self.script("open('pid', 'w').write(str(os.getpid()))", "import time", "time.sleep(600)")
        with ForkServer(self.folder, _GPU) as server:
            self.assertTrue(server.wait())
            client = os.fork()
            if client == 0:
                self.in_fork([script])
                os._exit(0)
            pid = self.folder / "pid"
            while not pid.is_file() or not pid.read_text():
                time.sleep(0.02)
            os.kill(client, 9)
            os.waitpid(client, 0)
            begin = time.monotonic()
            while pathlib.Path("/proc", pid.read_text()).exists():
                self.assertLess(time.monotonic() - begin, 60)
                time.sleep(0.02)


class Fit(Served):
    def recorded(self, script, starts):
        """The rows of `fit`, and how its recordings were started."""
        self.starts.unlink(missing_ok=True)
        done = subprocess.run([HEADROOM, "fit", script, "--json", "--gpu", f"{_GPU},v100-32gb", "--vary", "batch=1..",
                               "--beside", "13GiB", "--jobs", "2", "--python", sys.executable, "--", "{batch}"],
                              text=True, cwd=self.folder, capture_output=True,
                              env=os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache")} | starts)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[(row["batch"], row.get("plain"), row.get("planned")) for row in series["rows"]]
                for series in json.loads(done.stdout)["series"]]
        return rows, self.starts.read_text().split()

    def test_all_sizes_but_the_first_are_recorded_in_forks(self):
        rows, starts = self.recorded(self.script("train(int(sys.argv[1]))"), {"STARTS": str(self.starts)})
        self.assertEqual(starts.count("process"), 1)
        # The proof of the server, and the sizes at the edges.
        self.assertGreater(starts.count("fork"), 2)
        self.assertTrue(all(rows))

    def test_a_program_that_would_be_recorded_otherwise_is_recorded_in_processes(self):
        script = self.script("train(int(sys.argv[1]) + more)")
        script.write_text("import sys; more = 'torch._dynamo' in sys.modules\n" + script.read_text())
        rows, starts = self.recorded(script, {"STARTS": str(self.starts)})
        # The proof, and what was recorded during the proof and does not count.
        self.assertEqual(starts.count("fork"), 2)
        self.assertEqual((rows, ["process"] * (len(starts) - 2)),
                         self.recorded(script, {"STARTS": str(self.starts), "XDG_CACHE_HOME": str(self.folder / "other"),
                                                "HEADROOM_FORK_SERVERS": str(self.folder)}))

    def test_a_first_size_that_fails_leaves_the_others(self):
        script = self.script("batch = int(sys.argv[1])", "assert batch != 2", "train(batch)")
        rows, starts = self.recorded(script, {"STARTS": str(self.starts)})
        self.assertGreater(starts.count("fork"), 1)
        self.assertTrue(all(rows))


if __name__ == "__main__":
    unittest.main()
