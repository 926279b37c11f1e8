# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`torch-headroom fit` with training scripts: how a size reaches the script, scripts that fail at some sizes or change
their ops with the size, gradient accumulation, and the recordings that are kept.

    fit_script_test.py HEADROOM
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import support

support.need("torch")

from recorded_script import fork_servers  # noqa: E402

HEADROOM = sys.argv.pop(1)
_GPU = "t4-16gb"
_SCRIPT = """
    import os, sys, torch
    torch.manual_seed(0)
    given = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
    model = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True) for _ in range(2))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    def train(batch, micro_batches=1):
        for _ in range(3):
            for _ in range(micro_batches):
                model(torch.randn(batch, 64, 64, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
"""


class Fit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache" / "torch-headroom" / "recordings"
        self.environment = os.environ | fork_servers(_GPU) | {"XDG_CACHE_HOME": str(self.folder / "cache")}

    def script(self, *lines, name="train.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(_SCRIPT) + "\n".join(lines) + "\n")
        return path

    def started(self, *words, code=0):
        done = subprocess.run([HEADROOM, "fit", *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              timeout=500, env=self.environment)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def fitted(self, script, options, *arguments, code=0):
        """The document of --json; `options` of fit are one text."""
        done = self.started(script, "--json", "--gpu", _GPU, "--python", sys.executable, *options.split(), "--",
                            *arguments, code=code)
        return json.loads(done.stdout)

    def rows(self, *words, **code):
        return self.fitted(*words, **code)["series"][0]["rows"]


class Sizes(Fit):
    def test_the_ways_in_which_a_script_takes_a_size(self):
        script = self.script("train(int(given.get('train.batch') or os.environ.get('BATCH')",
                             "          or (sys.argv[sys.argv.index('-b') + 1] if '-b' in sys.argv else sys.argv[-1])))")
        peaks = [
            [row["plain"]["peak_bytes"] for row in self.rows(script, options, *arguments)]
            for options, *arguments in (("--vary train.batch=2,4",), ("--vary train.batch=2,4", "train.batch=77"),
                                        ("--vary env:BATCH=2,4",), ("--vary -b=2,4", "-b", "5"),
                                        ("--vary size=2,4", "--name", "{size}"))]
        self.assertLess(peaks[0][0], peaks[0][1])
        self.assertEqual(peaks, [peaks[0]] * len(peaks))

    def test_a_script_that_ignores_the_argument(self):
        found = self.fitted(self.script("train(4)"), "--vary --batch-size=1..64")
        remark, = found["series"][0]["remarks"]
        self.assertRegex(remark, "equal to the byte: the program does not use --batch-size")

    def test_a_script_that_fails_at_some_sizes(self):
        script = self.script("batch = int(given['batch'])", "if batch > 12:", "    raise ValueError('at most 12')",
                             "if batch == 3:", "    sys.exit('three is no batch')", "train(batch)")
        rows = {row["batch"]: row for row in self.rows(script, "--vary batch=2,3,4,16")}
        self.assertRegex(rows[16]["failure"], "train.py raised ValueError: at most 12")
        self.assertRegex(rows[3]["failure"], "train.py ended with exit code three is no batch")
        self.assertTrue(rows[2]["fits"] and rows[4]["fits"])
        for failure in (rows[3]["failure"], rows[16]["failure"]):
            self.assertNotIn("\n", failure)

        with self.subTest("a search ends at the size that fails"):
            series, = self.fitted(script, "--vary batch=4..64")["series"]
            rows = series["rows"]
            self.assertEqual(rows[series["largest"]]["batch"], 12)
            self.assertIn("larger sizes are not known: the program fails at batch 13", series["remarks"])
            self.assertFalse(series["bounded"])

        with self.subTest("no size can be recorded"):
            found = self.fitted(script, "--vary batch=20..64", code=3)
            self.assertIsNone(found["series"][0]["largest"])
            self.assertRegex(found["series"][0]["rows"][0]["failure"], "at most 12")

    def test_how_a_script_ended_is_said(self):
        script = self.script("if 'batch' not in given:", "    print('usage: train.py batch=N', file=sys.stderr)",
                             "    sys.exit(2)", "if int(given['batch']) > 4:", "    os.kill(os.getpid(), 11)",
                             "train(int(given['batch']))")
        row, = self.rows(script, "--vary size=2", code=3)
        self.assertRegex(row["failure"], "ended with exit code 2, .*; the last line on stderr: usage: train.py batch=N$")
        rows = self.rows(script, "--vary batch=4,8")
        self.assertTrue(rows[0]["fits"])
        self.assertRegex(rows[1]["failure"], "train.py was ended by SIGSEGV$")

    def test_a_data_set_that_has_too_few_samples(self):
        script = self.script("data = torch.utils.data.DataLoader(torch.randn(20, 64, 64), int(given['batch']))",
                             "for _ in range(3):", "    for samples in data:",
                             "        model(samples.cuda()).square().mean().backward()",
                             "        optimizer.step()", "        optimizer.zero_grad()")
        rows = self.rows(script, "--vary batch=4,16,32")
        self.assertTrue(rows[0]["fits"])
        self.assertRegex(rows[1]["failure"], "has a batch of 4 and not of 16, as where the data end")
        self.assertRegex(rows[2]["failure"], "has a batch of 20 and not of 32, as where the data end")

    def test_wrong_requests_are_refused_before_a_recording(self):
        script = self.script("train(int(given['batch']))")

        def fitted(options, *program, code):
            return self.started("--gpu", _GPU, "--python", sys.executable, "--vary", "batch=1..8", *options, *program,
                                code=code)

        for options, sentence in {
                ("--batch", "4"): "--batch is an option for models: name a script's argument with --vary",
                ("--seq", "64"): "--seq is an option for models",
                ("--global-batch", "8"): "--global-batch needs the script's argument for the number of micro-batches",
                ("--beside", "20GiB"): "nothing is left of Tesla T4 beside 20.00 GiB",
                ("--settings", "foo:bar"): "'foo' at character 1",
                ("-o", "missing/table.csv"): "there is no folder missing",
                ("--policies", script): "--policies .* cannot be created"}.items():
            done = fitted(options, script, code=2)
            self.assertRegex(done.stderr, f"^torch-headroom: .*{sentence}")
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual(fitted((), "nothing.py", code=2).stderr, "torch-headroom: nothing.py: there is no such file\n")
        self.assertIn("failed: no step could be recorded: ", fitted((), "-m", "no_such_module", code=3).stdout)
        other = self.started("--gpu", _GPU, "--python", "/bin/true", "--vary", "batch=1..8", script, code=3)
        self.assertIn("failed: /bin/true ended without a recording: expected a Python with torch_headroom", other.stdout)
        fitted(("--policies", "unused", "--cache-size", "much"), script, code=2)
        self.assertFalse((self.folder / "unused").exists())

    def test_no_folder_for_temporary_files(self):
        script = self.script("train(int(given['batch']))")
        for code, *command in ((3, "fit", "--vary", "batch=2,4", "--python", sys.executable),
                               (2, "shard", "--gpus", "2", "--batch", "2")):
            done = subprocess.run([HEADROOM, *command, "--gpu", _GPU, script], text=True, cwd=self.folder,
                                  capture_output=True, env=self.environment | {"TMPDIR": "/missing"})
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr + done.stdout, "no folder can be made among the temporary files in /missing: "
                                                        ".*; set TMPDIR to a folder")

    def test_a_script_that_runs_other_ops_at_other_sizes(self):
        script = self.script("for _ in range(3):", "    for _ in range(int(given['batch'])):",
                             "        model(torch.randn(1, 64, 64, device='cuda')).square().mean().backward()",
                             "    optimizer.step()", "    optimizer.zero_grad()")
        series, = self.fitted(script, "--vary batch=1..4")["series"]
        self.assertRegex(series["remarks"][0], "differ in more than sizes .* recorded and not calculated")
        self.assertEqual({row["source"] for row in series["rows"]}, {"recorded"})
        self.assertEqual(series["rows"][series["largest"]]["batch"], 4)

    def test_a_global_batch_in_micro_batches(self):
        script = self.script("train(int(given['micro']), int(given['accum']))")
        rows = self.rows(script, "--global-batch 8 --vary --micro=1..8 --vary-accumulation --accum")
        self.assertEqual([(row["batch"], row["accumulation"]) for row in rows], [(1, 8), (2, 4), (4, 2), (8, 1)])
        self.assertEqual({row["source"] for row in rows}, {"recorded"})
        peaks = [row["plain"]["peak_bytes"] for row in rows]
        self.assertEqual(peaks, sorted(peaks))
        # A step of 8 samples takes longest in the smallest micro-batches.
        times = [row["plain"]["step_ms"] for row in rows]
        self.assertEqual(times, sorted(times, reverse=True))
        for row in rows:
            self.assertAlmostEqual(row["plain"]["samples_per_second"], 8e3 / row["plain"]["step_ms"], 3)
        alone, = self.rows(script, "--vary --micro=2", "--accum=4")
        self.assertEqual(alone["plain"]["peak_bytes"], peaks[1])

    def test_what_would_help_a_script(self):
        script = self.script("train(int(given['micro']), int(given.get('accum', 1)))")

        def said(options, *arguments):
            found = self.fitted(script, "--changes " + options, *arguments)
            return {change["what"]: change for change in found["changes"]}, found["not_tried"]

        changes, untried = said("--vary --micro=64 --vary-accumulation --accum")
        half = changes["batch 32, gradients of two accumulated"]
        self.assertEqual((half["source"], half["options"]), ("recorded", ["--micro=32", "--accum=2"]))
        alone, = self.rows(script, "--vary --micro=32", "--accum=2")
        self.assertEqual(half["peak_bytes"], alone["plain"]["peak_bytes"])
        self.assertEqual(len(untried), 1)
        self.assertRegex(untried[0], "^autocast and bfloat16: only the script can turn autocast on")
        self.assertEqual({change["source"] for what, change in changes.items() if not what.startswith("batch")},
                         {"calculated"})

        for options, sentence in {"--vary --micro=64": "name the arguments for batch and micro-batches",
                                  "--vary --micro=7 --vary-accumulation --accum": "the batch, 7, is odd",
                                  "--vary --micro=64 --vary-accumulation --acc": "--acc=2 does not make two micro-batches",
                                  }.items():
            changes, untried = said(options)
            self.assertFalse([what for what in changes if what.startswith("batch")])
            self.assertIn(sentence, "; ".join(untried))
        done = self.started(script, "--gpu", _GPU, "--python", sys.executable, "--vary", "--micro=64", "--changes")
        self.assertIn("not tried: half the batch in two micro-batches: name the arguments", done.stdout)
        done = self.started(script, "--gpu", _GPU, "--vary", "--micro=4", "--changes", "--global-batch", "8", code=2)
        self.assertIn("leave out --global-batch", done.stderr)


class Kept(Fit):
    def test_a_step_is_recorded_once(self):
        script = self.script("train(int(given['batch']))")

        def counted(options="--vary batch=2,4"):
            cache = self.fitted(script, options)["cache"]
            return cache["recorded"], cache["kept"]

        self.assertEqual(counted(), (2, 0))
        self.assertEqual(counted(), (0, 2))
        self.assertEqual(counted("--vary batch=2,8"), (1, 1))
        script.write_text(script.read_text() + "\n")
        self.assertEqual(counted(), (2, 0))

        with self.subTest("damaged files are recorded again"):
            for step in self.cache.glob("*/step.hrs"):
                step.write_bytes(step.read_bytes()[:5000])
            self.assertEqual(counted(), (2, 0))
            for index in self.cache.glob("*.json"):
                index.write_text("[]")
            self.assertEqual(counted(), (2, 0))
            for file in self.cache.glob("*/dependencies.json"):
                file.write_text("{")
            self.assertEqual(counted(), (2, 0))
            self.assertEqual(counted(), (0, 2))

    def test_the_recordings_unused_for_longest_are_removed(self):
        script = self.script("train(int(given['batch']))")
        self.fitted(script, "--vary batch=2,4,6")
        for index in self.cache.glob("*.json"):
            folder = self.cache / json.loads(index.read_text())["folder"]
            age = 3000 - 1000 * [2, 4, 6].index(self.batch_of(folder))
            for path in (index, folder):
                os.utime(path, (path.stat().st_mtime - age,) * 2)
        self.assertEqual(self.fitted(script, "--vary batch=2")["cache"]["kept"], 1)  # now the latest used
        size = max(sum(file.stat().st_size for file in folder.iterdir()) for folder in self.cache.iterdir()
                   if folder.is_dir())
        found = self.fitted(script, f"--vary batch=2 --cache-size {int(2.5 * size)}")
        self.assertEqual(self.kept_batches(), [2, 6])
        self.assertLessEqual(found["cache"]["bytes"], found["cache"]["limit_bytes"])
        # What a run has used stays.
        self.fitted(script, "--vary batch=8 --cache-size 1")
        self.assertEqual(self.kept_batches(), [8])

    def batch_of(self, folder):
        return int(re.search(rb'"batch": ?(\d+)', (folder / "step.hrs").read_bytes())[1])

    def kept_batches(self):
        return sorted(self.batch_of(self.cache / json.loads(index.read_text())["folder"])
                      for index in self.cache.glob("*.json"))

    def test_a_request_to_stop_leaves_nothing_half_written(self):
        script = self.script("import time", "if given['batch'] != '2':",
                             "    open(given['batch'], 'w').close()", "    time.sleep(600)", "train(2)")
        own = self.folder / "tmp"
        own.mkdir()
        for number in (signal.SIGINT, signal.SIGTERM):
            run = subprocess.Popen([HEADROOM, "fit", "--gpu", _GPU, "--python", sys.executable, "--jobs", "2", "--vary",
                                    "batch=2,4", script], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment | {"TMPDIR": str(own)})
            begun = self.folder / "4"
            while not (begun.exists() and list(self.cache.glob("*.json"))) and run.poll() is None:
                time.sleep(0.05)
            begun.unlink()
            run.send_signal(number)
            output, errors = run.communicate(timeout=30)
            self.assertEqual((run.returncode, output), (128 + number, ""), errors)
            self.assertRegex(errors.splitlines()[-1], "^torch-headroom: cancelled; steps that are recorded stay in ")
            self.assertEqual(list(own.glob("torch-headroom-fit-*")), [])
            self.assertEqual(self.kept_batches(), [2])
            self.assertEqual(len(list(self.cache.iterdir())), 2)  # the recording of batch 2 and its index

    def test_runs_at_the_same_time(self):
        script = self.script("train(int(given['batch']))")
        command = [HEADROOM, "fit", script, "--json", "--gpu", _GPU, "--python", sys.executable, "--vary", "batch=2,4",
                   "--cache-size", "1MiB"]
        runs = [subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=self.environment) for _ in range(2)]
        found = [run.communicate() for run in runs]
        self.assertEqual([run.returncode for run in runs], [0] * 2, found)
        rows = [json.loads(output)["series"][0]["rows"] for output, _ in found]
        self.assertEqual([[row.get("plain", {}).get("peak_bytes") for row in run] for run in rows],
                         [[row["plain"]["peak_bytes"] for row in rows[0]]] * 2)


if __name__ == "__main__":
    unittest.main()
