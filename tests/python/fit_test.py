# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.fit() in programs: what a list and a range answer, that a size is recorded as if the program trained at
this size alone, that its answer is that of `torch-headroom fit`, and what is refused.

    fit_test.py HEADROOM
"""

import json
import os
import pathlib
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
_NET = """
    import json, sys, torch_headroom
    torch_headroom.simulate("a100-80gb")
    import torch
    torch.manual_seed(0)
    class Net(torch.nn.Sequential):
        pass
    model = Net(*(torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    def train_step(batch_size, length=128):
        loss = model(torch.randn(batch_size, length, 128, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    def told(result):
        names = ("batch seq accumulation gpu runs with_plan recorded failure peak_bytes reserved_peak_bytes recompute_ms "
                 "step_ms samples_per_second policy modules remarks step")
        def row(at):
            return at and {name: getattr(at, name) for name in names.split()}
        print(json.dumps({"rows": [row(at) for at in result.rows], "largest": row(result.largest),
                          "largest_without_plan": row(result.largest_without_plan), "fastest": row(result.fastest),
                          "text": str(result), "recorded": result.recorded, "kept": result.kept,
                          "remarks": result.series[0].remarks}))
"""
_SMALL_CARD = '"t4-16gb", beside="14500MiB"'  # so that few samples fill the card


class Fit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    @classmethod
    def started(cls, *command, **environment):
        environment = os.environ | fork_servers("t4-16gb") | {"XDG_CACHE_HOME": str(cls.folder / "cache")} | environment
        return subprocess.run([*map(str, command)], cwd=cls.folder, capture_output=True, text=True, timeout=500,
                              env=environment)

    @classmethod
    def program(cls, name, *lines):
        path = cls.folder / name
        path.write_text(textwrap.dedent(_NET) + "\n".join(lines) + "\n")
        return path

    def answers(self, name, *lines):
        """What a program that calls told() has found, a dict for each call."""
        done = self.started(sys.executable, self.program(name, *lines))
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]


class Ranges(Fit):
    def test_the_largest_sizes_and_the_next_ones_are_recorded(self):
        found, = self.answers("range.py", f'told(torch_headroom.fit(train_step, "1..200", {_SMALL_CARD}))')
        rows = {row["batch"]: row for row in found["rows"]}
        self.assertEqual(list(rows), sorted(rows))
        plain, largest = found["largest_without_plan"]["batch"], found["largest"]["batch"]
        self.assertLess(plain, largest)
        self.assertLess(largest, 200)
        self.assertTrue(rows[plain]["runs"] and not rows[plain]["with_plan"] and rows[plain]["recorded"])
        self.assertTrue(rows[plain + 1]["with_plan"] and rows[plain + 1]["recorded"])
        self.assertTrue(rows[largest]["with_plan"] and rows[largest]["recorded"] and rows[largest]["modules"])
        self.assertFalse(rows[largest + 1]["runs"])
        self.assertTrue(rows[largest + 1]["recorded"])
        self.assertIsNone(rows[largest + 1]["samples_per_second"])
        self.assertGreater(rows[largest]["recompute_ms"], 0)
        self.assertLess(found["recorded"], 10)
        self.assertEqual(found["fastest"]["samples_per_second"],
                         max(row["samples_per_second"] for row in rows.values() if row["runs"]))
        self.assertIn(f"largest: batch {largest}, with a plan", found["text"])
        for row in rows.values():
            self.assertIn(f"{row['step_ms']:,.2f}" if row["runs"] else "no", found["text"])

        with self.subTest("the policy of the largest size trains with the peak of its row"):
            trained = self.started(sys.executable, self.program(
                "apply.py", f"torch_headroom.apply(model, {found['largest']['policy']!r})",
                f"sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})", "import support",
                "for _ in range(3):", f"    train_step({largest})", "print(support.tensor_bytes()[1])"))
            self.assertEqual(int(trained.stdout), found["largest"]["peak_bytes"], trained.stderr)

        with self.subTest("the command finds the same"):
            script = self.program("train.py", "for _ in range(3):", "    train_step(int(sys.argv[1]))")
            script.write_text(script.read_text().replace('torch_headroom.simulate("a100-80gb")', ""))
            done = self.started(HEADROOM, "fit", script, "--json", "--gpu", "t4-16gb", "--beside", "14500MiB", "--vary",
                                "batch=1..200", "--python", sys.executable, "--", "{batch}")
            self.assertEqual(done.returncode, 0, done.stderr)
            series, = json.loads(done.stdout)["series"]
            self.assertEqual(len(series["rows"]), len(rows))
            for row in series["rows"]:
                run = row["plain"] if row["plain"]["runs"] else row["planned"]
                own = rows[row["batch"]]
                self.assertEqual((row["source"], run["peak_bytes"], run["runs"]),
                                 ("recorded" if own["recorded"] else "calculated", own["peak_bytes"], own["runs"]))
                if own["runs"]:
                    self.assertEqual((run["reserved_peak_bytes"], run["step_ms"], run["recompute_ms"]),
                                     (own["reserved_peak_bytes"], own["step_ms"], own["recompute_ms"]))

        with self.subTest("another start records nothing"):
            again, = self.answers("range.py", f'told(torch_headroom.fit(train_step, "1..200", {_SMALL_CARD}))')
            self.assertEqual((again["recorded"], again["kept"]), (0, found["recorded"]))
            self.assertEqual(again["rows"], found["rows"])

        with self.subTest("a damaged recording is made again"):
            step = pathlib.Path(found["largest"]["step"])
            step.write_bytes(step.read_bytes()[:3000])
            again, = self.answers("range.py", f'told(torch_headroom.fit(train_step, "1..200", {_SMALL_CARD}))')
            self.assertEqual(again["recorded"], 1)
            self.assertEqual(again["largest"]["peak_bytes"], found["largest"]["peak_bytes"])

    def test_a_step_that_ignores_the_size_is_said(self):
        found, = self.answers("ignores.py", "def ignores(batch_size):", "    train_step(4)",
                              'told(torch_headroom.fit(ignores, "1..64", gpu="t4-16gb"))')
        self.assertRegex(found["remarks"][0], "equal to the byte: the program does not use batch")


class Lists(Fit):
    def test_a_size_is_recorded_as_if_the_program_trained_at_this_size_alone(self):
        found, = self.answers("list.py", 'told(torch_headroom.fit(train_step, [16, 2, 8], gpu="t4-16gb"))',
                              "assert torch.cuda.memory_allocated() == sum(p.nbytes for p in model.parameters())")
        self.assertEqual([row["batch"] for row in found["rows"]], [2, 8, 16])
        for row in found["rows"]:
            alone = self.program("alone.py", "for _ in range(3):", f"    train_step({row['batch']})")
            alone.write_text(alone.read_text().replace('torch_headroom.simulate("a100-80gb")', ""))
            self.started(sys.executable, "-m", "torch_headroom.record", "--gpu", "t4-16gb", "-o", "alone.hrs", alone)
            own, other = support.columns(row["step"]), support.columns(self.folder / "alone.hrs")
            self.assertEqual(own.keys(), other.keys())
            for name in own:
                if name.startswith(("storage", "event", "tensor", "op.", "ops")):
                    self.assertEqual(own[name].tobytes(), other[name].tobytes(), name)

    def test_sizes_that_raise_leave_the_others(self):
        found, second = self.answers(
            "raises.py", "def odd(batch_size):", "    if batch_size % 2:", "        raise ValueError('no odd batches')",
            "    train_step(batch_size)", 'told(torch_headroom.fit(odd, [1, 2, 3, 4], gpu="t4-16gb"))',
            'told(torch_headroom.fit(odd, (2, 4), gpu=["t4-16gb", "v100-32gb"]))')
        self.assertEqual([row["runs"] for row in found["rows"]], [False, True, False, True])
        self.assertRegex(found["rows"][0]["failure"], "raises.py raised ValueError: no odd batches")
        self.assertIsNone(found["rows"][0]["peak_bytes"])
        self.assertEqual(found["largest"]["batch"], 4)
        self.assertIn("batch 3 failed: ", found["text"])
        self.assertEqual([(row["gpu"], row["batch"]) for row in second["rows"]],
                         [("t4-16gb", 2), ("t4-16gb", 4), ("v100-32gb", 2), ("v100-32gb", 4)])
        self.assertEqual(second["fastest"]["gpu"], "v100-32gb")

    def test_sequence_lengths_and_micro_batches_are_arguments_of_the_step(self):
        lengths, micro = self.answers(
            "arguments.py", 'told(torch_headroom.fit(train_step, 4, gpu="t4-16gb", seq=[32, 64]))',
            "def accumulates(batch_size, micro_batches):", "    for _ in range(micro_batches):",
            '        model(torch.randn(batch_size, 128, 128, device="cuda")).square().mean().backward()',
            "    optimizer.step()", "    optimizer.zero_grad()",
            'told(torch_headroom.fit(accumulates, "1..4", gpu="t4-16gb", global_batch=8))')
        self.assertEqual([row["seq"] for row in lengths["rows"]], [32, 64])
        self.assertLess(lengths["rows"][0]["peak_bytes"], lengths["rows"][1]["peak_bytes"])
        self.assertEqual([(row["batch"], row["accumulation"]) for row in micro["rows"]], [(1, 8), (2, 4), (4, 2)])
        self.assertFalse([row["failure"] for row in micro["rows"] if row["failure"]])

    def test_a_new_optimizer_in_each_step_is_said(self):
        program = self.folder / "fresh.py"
        program.write_text(textwrap.dedent("""
            import torch_headroom, torch
            def train_step(batch_size):
                model = torch.nn.Linear(256, 256).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                model(torch.randn(batch_size, 256, device="cuda")).sum().backward()
                optimizer.step()
            result = torch_headroom.fit(train_step, [4], gpu="t4-16gb")
            print(result.rows[0].runs, result.rows[0].remarks)
        """))
        done = self.started(sys.executable, program)
        self.assertRegex(done.stdout, "^True .*makes a new optimizer in each call", done.stderr)


class Refusals(Fit):
    def test_in_one_sentence(self):
        refused = {
            'fit(3, [1], "t4-16gb")': "train_step: expected a function",
            'fit(train_step, [], "t4-16gb")': r"batch_sizes \[\]: expected whole numbers from 1 on",
            'fit(train_step, [0, 1], "t4-16gb")': "expected whole numbers from 1 on",
            'fit(train_step, [1.5], "t4-16gb")': "expected whole numbers from 1 on",
            'fit(train_step, "4..1", "t4-16gb")': "batch `4..1`",
            'fit(train_step, [1], "t5")': "unknown GPU 't5'",
            'fit(train_step, [1], "t4-16gb", share=2)': "share 2: expected a number above 0, up to 1",
            'fit(train_step, [1], "t4-16gb", beside="x")': "beside `x` is not a size: expected",
            'fit(train_step, [3], "t4-16gb", global_batch=8)': "no batch divides the global batch 8",
            'fit(train_step, "1..4", "t4-16gb", seq="64..128")': "both ranges",
        }
        lines = (line for call in refused for line in ("try:", f"    torch_headroom.{call}", "    print()",
                                                       "except Exception as error:",
                                                       '    print(f"{type(error).__name__}: {error}")'))
        done = self.started(sys.executable, self.program("refused.py", *lines))
        said = done.stdout.splitlines()
        self.assertEqual(len(said), len(refused), done.stderr)
        for (call, sentence), own in zip(refused.items(), said):
            with self.subTest(call):
                self.assertRegex(own, f"^HeadroomError: .*{sentence}")

    def test_a_program_that_cannot_run_again(self):
        done = self.started(sys.executable, "-c", 'import torch_headroom; torch_headroom.fit(print, [1], gpu="t4-16gb")')
        self.assertRegex(done.stderr.strip().splitlines()[-1], r"fit\(\) runs the program again .* has no script")

    def test_a_cache_that_cannot_be_written(self):
        program = self.folder / "unkept.py"
        program.write_text('import torch_headroom\nprint(torch_headroom.fit(print, [1], gpu="t4-16gb"))\n')
        done = self.started(sys.executable, program, XDG_CACHE_HOME="/proc/none")
        self.assertRegex(done.stdout, "batch 1 failed: nothing can be kept in /proc/none/.*: set XDG_", done.stderr)

    def test_ctrl_c_leaves_nothing_half_written(self):
        program = self.program("slow.py", "import pathlib, time", "def slow(batch_size):",
                               "    pathlib.Path('begun').touch()", "    time.sleep(600)",
                               'torch_headroom.fit(slow, [1, 2], gpu="t4-16gb")')
        cache = self.folder / "other cache"
        run = subprocess.Popen([sys.executable, program], cwd=self.folder, stderr=subprocess.PIPE, text=True,
                               env=os.environ | {"XDG_CACHE_HOME": str(cache)}, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not (self.folder / "begun").exists() and run.poll() is None:
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        self.assertEqual((run.returncode, errors.splitlines()[-1]), (-signal.SIGINT, "KeyboardInterrupt"), errors)
        self.assertEqual(list((cache / "torch-headroom" / "recordings").iterdir()), [])

    def test_a_step_that_trains_nothing(self):
        found, = self.answers("nothing.py", 'told(torch_headroom.fit(lambda size: None, [1], gpu="t4-16gb"))')
        self.assertRegex(found["rows"][0]["failure"], "train_step made no whole training step, as the program trained "
                                                      "nothing")


if __name__ == "__main__":
    unittest.main()
