# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m torch_headroom.record on scripts that know nothing of it, and on scripts that fail."""

import gzip
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import unittest

import support
from recorded_script import Recorded

support.need("torch")

_SCRIPTS = pathlib.Path(__file__).with_name("scripts")


def block(count):
    """Bytes of a storage on the device."""
    return -(-count // 512) * 512


def floats(*sizes):
    return sum(block(4 * size) for size in sizes)


class Scripts(Recorded):
    def record(self, name, *arguments):
        result = self.run_script(_SCRIPTS / name, "--json", "--gpu", "a100-80gb", arguments=arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(self.step.exists())
        document = json.loads(result.stdout)
        self.assertEqual(document["model"], name)
        self.assertEqual(document["fallbacks"], [])
        self.assertEqual(sorted(document["phases"])[0], "after_backward")
        return document["phases"], document

    def test_language_model(self):
        phases, _ = self.record("language_model.py", "--layers", "4")
        width, layers = 512, 4
        layer = [width] * 4 + [3 * width * width, 3 * width, width * width, width]
        layer += [4 * width * width, 4 * width, 4 * width * width, width]
        parameters = floats(32000 * width, 512 * width, width, width, *layer * layers)
        self.assertEqual(phases["start"]["parameter"], parameters)
        self.assertEqual(phases["start"]["gradient"], 0)
        self.assertEqual(phases["after_backward"]["gradient"], parameters)
        # Two averages of each parameter, and a counter of the fused kernel on the device.
        count = 4 + 12 * layers
        self.assertEqual(phases["start"]["optimizer"], 2 * parameters + 512 * count)
        self.assertEqual(phases["after_zero_grad"]["gradient"], 0)
        self.assertGreaterEqual(phases["start"]["input"], block(8 * 8 * 512))

    def test_image_classifier(self):
        phases, _ = self.record("image_classifier.py")
        # Gradients are cleared before backward: those of the step before are there when it begins.
        self.assertEqual(phases["start"]["gradient"], phases["start"]["parameter"])
        self.assertEqual(phases["start"]["optimizer"], phases["start"]["parameter"])
        self.assertEqual(phases["after_step"]["gradient"], phases["start"]["parameter"])

    def test_adversarial(self):
        phases, document = self.record("adversarial.py")
        generator = [64 * 128 * 16, 128, 128, 128 * 64 * 16, 64, 64, 64 * 3 * 16, 3]
        critic = [3 * 64 * 16, 64, 64 * 128 * 16, 128, 2048, 1]
        self.assertEqual(phases["start"]["parameter"], floats(*generator, *critic))
        self.assertEqual(phases["start"]["optimizer"], 2 * floats(*generator, *critic))

    def test_fine_tuning(self):
        phases, _ = self.record("fine_tuning.py")
        width = 512
        layer = [3 * width * width, 3 * width, width * width, width, 4 * width * width, 4 * width, 4 * width * width]
        layer += [width] * 5
        trained = floats(*layer * 3, 4 * width, 4)
        self.assertEqual(phases["after_backward"]["gradient"], trained)
        self.assertEqual(phases["start"]["optimizer"], 2 * trained)
        self.assertEqual(phases["start"]["parameter"], floats(20000 * width, *layer * 6, 4 * width, 4))


class Faults(Recorded):
    """Scripts that ended in an error of the simulation once."""

    def record(self, name, *arguments):
        script = pathlib.Path(__file__).with_name("faults") / name
        result = self.run_script(script, "--strict", "--steps", "9", arguments=arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(self.step.exists())
        return result

    def test_a_script_that_starts_cudas_profiler(self):
        self.assertIn("ended", self.record("cuda_profiler.py").stdout)

    def test_a_for_over_many_values(self):
        for length in ("short", "long"):
            self.assertIn("ended by itself", self.record("long_for.py", length).stdout)


_LOOP = """
    import torch
    model = torch.nn.Linear(1000, 1000).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range({steps}):
        loss = model(torch.randn(64, 1000, device="cuda")).sum()
        {inside}
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


_LOOP_ON_CPU = _LOOP.replace(".cuda()", "").replace(', device="cuda"', "")


class Origins(Recorded):
    def test_a_script(self):
        script = self.written(_LOOP.format(steps=2, inside="pass"))
        result = self.run_script(script.name, "--gpu", "t4-16gb", "--unlimited", arguments=("--name", "two words"))
        self.assertEqual(result.returncode, 0, result.stderr)
        folder = os.path.realpath(self.folder.name)
        again = ["--gpu", "t4-16gb", "--steps", "2", "--unlimited", f"{folder}/train.py", "--name", "two words"]
        self.assertEqual(self.noted("arguments"), again)
        origin = dict(self.noted("settings"))
        self.assertEqual(origin["program"], "train.py --name 'two words'")
        self.assertEqual(origin["interpreter"], sys.executable)
        self.assertEqual(os.path.realpath(origin["folder"]), folder)

    def test_a_module(self):
        self.written(_LOOP.format(steps=2, inside="pass"))
        result = self.run_script("train", "-m")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.noted("arguments")[-2:], ["-m", "train"])
        self.assertEqual(dict(self.noted("settings"))["program"], "-m train")

    def test_variables_that_size_what_the_allocator_takes(self):
        sets = ('import os\n    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":16:8"\n    '
                'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"\n    import torch')
        loop = _LOOP.format(steps=2, inside="pass").replace("import torch", sets, 1)
        result = self.run_script(self.written(loop).name)
        self.assertEqual(result.returncode, 0, result.stderr)
        settings = dict(self.noted("settings"))
        self.assertEqual(settings["CUBLAS_WORKSPACE_CONFIG"], ":16:8")
        self.assertEqual(settings["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True")
        self.assertNotIn("CUBLASLT_WORKSPACE_SIZE", settings)

    def recording_itself(self, loop):
        simulated = "import torch_headroom\n    torch_headroom.simulate('t4-16gb')"
        head, loop = loop.replace("import torch", f"{simulated}\n    import torch").split("    for step", 1)
        body = textwrap.indent("    for step" + loop, "    ")
        return self.written(head + "    with torch_headroom.record('step.hrs'):\n" + body)

    def test_a_program_that_records_itself(self):
        script = self.recording_itself(_LOOP.format(steps=1, inside="pass"))
        result = subprocess.run([sys.executable, script, "7"], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.noted("arguments"), [])
        self.assertEqual(dict(self.noted("settings"))["program"], f"{script} 7")

    def test_a_program_that_records_itself_on_the_cpu(self):
        script = self.recording_itself(_LOOP_ON_CPU.format(steps=1, inside="pass"))
        result = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(result.returncode, 1)
        self.assertIn("step 1 used no memory of cuda, as the model is on the CPU", result.stderr.splitlines()[-1])

    def test_a_name_that_is_no_text(self):
        script = os.path.join(os.fsencode(self.folder.name), b"tr\xe4in.py")
        with open(script, "w") as file:
            file.write(textwrap.dedent(_LOOP.format(steps=2, inside="pass")))
        result = subprocess.run(self.command(script), capture_output=True, cwd=self.folder.name)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tr\ufffdin.py", self.noted("arguments")[-1])


class EarlyEnds(Recorded):
    """What a script that is ended in its loop leaves behind does not keep the recording from ending."""

    def ended(self, text):
        result = self.run_script(self.written(text))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertTrue(self.step.exists())
        return result.stdout.splitlines()[-1]

    def test_workers_that_persist(self):
        # The class holds the script's globals, and these the loader: it dies with the process only.
        last_line = self.ended(
            """
            import atexit, multiprocessing, torch
            class Data(torch.utils.data.Dataset):
                def __len__(self): return 64
                def __getitem__(self, i): return torch.ones(1000)
            loader = torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=2, persistent_workers=True, pin_memory=True)
            model = torch.nn.Linear(1000, 1000).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in loader:
                if not optimizer.state:
                    atexit.register(lambda: print("children at exit:", len(multiprocessing.active_children())))
                model(batch.cuda()).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            """
        )
        self.assertEqual(last_line, "children at exit: 0")

    def test_threads_and_processes_that_wait_for_the_script(self):
        last_line = self.ended(
            """
            import atexit, multiprocessing, queue, threading, torch
            def feed(batches):
                while True:
                    batches.put([1.0] * 1000)
            if __name__ == "__main__":
                atexit.register(print, "the script's own end")
                there, elsewhere = queue.Queue(1), multiprocessing.Queue(1)
                threading.Thread(target=feed, args=(there,)).start()
                multiprocessing.get_context("fork").Process(target=feed, args=(elsewhere,)).start()
                model = torch.nn.Linear(1000, 1000).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for step in range(9):
                    batch = torch.tensor([there.get(), elsewhere.get()]).cuda()
                    model(batch).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """
        )
        self.assertEqual(last_line, "the script's own end")

    def test_files_that_the_script_was_writing(self):
        self.ended(
            """
            import gzip, threading, torch
            log, packed = open("log.txt", "w"), gzip.open("log.gz", "wt")
            end = lambda: (threading.main_thread().join(), late.write("from a thread"))
            late = open("late.txt", "w")
            threading.Thread(target=end).start()
            model = torch.nn.Linear(10, 10).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while True:
                print("a line", file=log)
                print("a line", file=packed)
                model(torch.ones(2, 10).cuda()).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            """
        )
        folder = pathlib.Path(self.folder.name)
        self.assertEqual((folder / "log.txt").read_text(), "a line\n" * 2)
        self.assertEqual(gzip.decompress((folder / "log.gz").read_bytes()).decode(), "a line\n" * 2)
        self.assertEqual((folder / "late.txt").read_text(), "from a thread")


class Garbage(Recorded):
    """Tensors that only a cycle holds: their memory comes back where Python finds them, as it does without Headroom."""

    def test_is_sought_as_usual_once_there_is_a_gpu(self):
        script = self.written(
            """
            import gc, torch
            assert gc.get_threshold()[0] > 100_000, gc.get_threshold()
            model = torch.nn.Linear(10, 10)
            assert gc.get_threshold()[0] > 100_000, gc.get_threshold()
            model.cuda()
            assert gc.get_threshold() == (700, 10, 10), gc.get_threshold()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while True:
                ring = [torch.ones(2**18, device="cuda")]
                ring.append(ring)
                small = [[] for _ in range(1000)]
                model(torch.ones(2, 10).cuda()).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                del ring
                assert torch.cuda.memory_allocated() < 25 * 2**20  # of 40
            """
        )
        result = self.run_script(script, "--steps", "40")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_threshold_of_the_script_stays(self):
        script = self.written(
            """
            import gc, torch
            gc.set_threshold(300)
            model = torch.nn.Linear(10, 10).cuda()
            assert gc.get_threshold()[0] == 300, gc.get_threshold()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while True:
                model(torch.ones(2, 10).cuda()).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            """
        )
        result = self.run_script(script)
        self.assertEqual(result.returncode, 0, result.stderr)


class Failures(Recorded):
    def loop(self, steps=5, inside="pass"):
        return self.written(_LOOP.format(steps=steps, inside=inside))

    def refused(self, result, code, sentence):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(sentence, result.stderr.splitlines()[-1])
        self.assertEqual(list(pathlib.Path(self.folder.name).glob("*.hrs*")), [self.step] if self.step.exists() else [])

    def test_an_exception_leaves_the_step_so_far(self):
        result = self.run_script(self.loop(inside="assert step == 0, 'too far'"))
        self.refused(result, 2, "train.py raised AssertionError: too far; ")
        self.assertIn("holds step 2 up to there", result.stderr)
        self.assertIn('train.py", line 7', result.stderr)
        self.assertNotIn("torch_headroom/record.py", result.stderr)
        self.assertTrue(self.step.exists())

    def test_invented_values_before_an_exception_are_told_of(self):
        result = self.run_script(self.loop(inside="assert torch.randn(9, device='cuda').sum().item() == 0, 'not so'"))
        self.refused(result, 2, "(placeholder values that the program had read from the simulated GPU: 1; the "
                                "placeholders may be the cause)")

    def test_out_of_memory_leaves_the_step_so_far(self):
        script = self.loop(inside="big = torch.empty(2**33, 4, device='cuda') if step else None")
        result = self.run_script(script, "--gpu", "a100-80gb", "--limited")
        self.refused(result, 2, "CUDA out of memory")
        self.assertTrue(self.step.exists())
        whole = self.run_script(script, "--gpu", "a100-80gb", "--unlimited", "--json")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertGreater(json.loads(whole.stdout)["peak_bytes"], 2**37)

    def test_out_of_memory_before_training_leaves_nothing(self):
        script = self.written("import torch\ntorch.empty(2**40, device='cuda')")
        for options, sentence in (["--limited"], "before a training step began"), ([], "trained nothing"):
            self.refused(self.run_script(script, *options), 2, sentence)
            self.assertFalse(self.step.exists())

    def test_out_of_memory_is_recorded_again_as_on_a_larger_card(self):
        script = self.loop(inside="big = torch.empty(2**33, 4, device='cuda') if step else None")
        unlimited = json.loads(self.run_script(script, "--gpu", "a100-80gb", "--unlimited", "--json").stdout)
        result = self.run_script(script, "--gpu", "a100-80gb", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"train\.py: CUDA out of memory\. .* Line 7 of .*train\.py, in <module>, made the "
                         r"request; the script is recorded again as on a larger card \(--limited ends here\)\n")
        self.assertNotIn("Traceback", result.stderr)
        summary = json.loads(result.stdout)
        self.assertEqual(summary["peak_bytes"], unlimited["peak_bytes"])
        self.assertRegex(summary["card_was_full"], r"^the request for 128\.00 GiB in line 7 of .*train\.py, in <module>$")
        self.assertEqual(unlimited["card_was_full"], "")
        (remark,) = [remark for remark in summary["remarks"] if "larger card" in remark]
        self.assertIn(summary["card_was_full"], remark)
        self.assertNotIn("--unlimited", self.noted("arguments"))

    def test_out_of_memory_names_the_module(self):
        script = self.written("""
            import torch
            class Wide(torch.nn.Module):
                def forward(self, x):
                    return x, torch.empty(2**40, device="cuda")
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sequential(Wide())).cuda()
            model(torch.ones(1, 8, device="cuda"))
        """)
        result = self.run_script(script, "--limited")
        self.refused(result, 2, "Line 5 of ")
        self.assertIn("in forward (module Sequential.1.0), made the request", result.stderr)

    def test_a_script_that_handles_out_of_memory_runs_as_on_the_card(self):
        script = self.loop(inside="""
        try:
            torch.empty(2**40, device='cuda')
        except torch.OutOfMemoryError:
            print("handled")""")
        result = self.run_script(script, "--gpu", "a100-80gb", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("handled", result.stderr)
        self.assertEqual(json.loads(result.stdout)["card_was_full"], "")

    def test_a_script_that_trains_nothing(self):
        result = self.run_script(self.written("import torch\ntorch.ones(3, device='cuda')"))
        self.refused(result, 2, "trained nothing")
        self.assertFalse(self.step.exists())

    def test_a_model_on_the_cpu(self):
        for steps in (3, 1):  # 1: the script ends by itself
            result = self.run_script(self.written(_LOOP_ON_CPU.format(steps=steps, inside="pass")))
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            self.assertRegex(
                result.stderr,
                r"\Atorch_headroom.record: \S*train.py: step [12] used no memory of cuda, as the model is on the CPU: .*"
                r"model.cuda\(\) .*; nothing was written\n\Z",
            )
            self.assertFalse(self.step.exists())

    def test_compiled_functions_that_are_never_called(self):
        compiled = 'unused = torch.compile(lambda x: x + 1)\n        '
        result = self.run_script(self.written(_LOOP.format(steps=2, inside=compiled + "pass")))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = self.run_script(self.written(_LOOP.format(steps=2, inside=compiled + "loss = unused(loss)")))
        left_out = 0 if importlib.util.find_spec("triton") else 1
        self.assertEqual((result.returncode, result.stderr.count("torch.compile is left out")), (0, left_out))

    def test_masks_that_the_step_makes_are_known_in_its_backward(self):
        # TRL's log-probabilities: how many elements the mask selects says the sizes of the gradients.
        inside = """labels = torch.arange(64 * 1000).view(64, 1000).remainder(3).cuda()
        mask = labels != 0
        scores = model(torch.randn(64, 1000, device="cuda"))
        loss = scores.new_zeros(mask.shape).masked_scatter(mask, scores[mask].mul(2)).sum()
        del mask, labels"""
        result = self.run_script(self.written(_LOOP.format(steps=2, inside=inside)))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotIn("placeholder", result.stdout)

    def test_decisions_by_invented_values_are_told_of(self):
        inside = """scores = model(torch.randn(64, 1000, device="cuda"))
        loss = scores.mean()
        print(loss.item())
        if (scores.argmax() == 3).all() or (scores > 0).any().cpu():
            loss = loss * 2"""
        script = self.written(_LOOP.format(steps=2, inside=inside))
        result = self.run_script(script)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        line = 1 + script.read_text().splitlines().index("    if (scores.argmax() == 3).all() or (scores > 0).any().cpu():")
        self.assertIn(f"remark: the program asked 2 times, first at {script}:{line} for a truth value that "
                      "depends on data, and got a placeholder", result.stdout)
        self.assertEqual(dict(self.noted("settings"))["invented decisions"], f"2 times, first at {script}:{line}")
        # Whether the arguments of a distribution are valid is no decision: if not, the program ends.
        checks = "loss = torch.distributions.Normal(scores, 1).log_prob(scores).sum()"
        for quiet in "", checks:
            result = self.run_script(self.written(_LOOP.format(steps=2, inside=inside[:inside.index("if")] + quiet)))
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertNotIn("for a truth value", result.stdout)

    def test_strict(self):
        plain = self.written(_LOOP.format(steps=2, inside="pass"))
        self.assertEqual(self.run_script(plain, "--strict").returncode, 0)
        selects = self.written(_LOOP.format(steps=2, inside="""scores = model(torch.randn(64, 1000, device="cuda"))
        loss = scores[scores > 0].sum()"""))
        result = self.run_script(selects)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("remark: the sizes of results are placeholders once at ", result.stdout)
        result = self.run_script(selects, "--strict")
        self.refused(result, 2, "--strict: 1 remark")
        self.assertRegex(self.noted("remarks")[0], "the sizes of results are placeholders once at .*: on the card")

    def test_masks_that_follow_from_the_model(self):
        inside = """scores = model(torch.randn(64, 1000, device="cuda"))
        loss = scores.masked_scatter(scores > 0, torch.nn.functional.relu(scores[0])).sum()"""
        result = self.run_script(self.written(_LOOP.format(steps=2, inside=inside)))
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_fewer_steps_than_wanted(self):
        result = self.run_script(self.loop(steps=1))
        self.refused(result, 0, "made 1 of 2 steps")
        self.assertTrue(self.step.exists())

    def test_the_script_ends_itself(self):
        result = self.run_script(self.loop(inside="import sys; sys.exit(5)"))
        self.refused(result, 2, "ended with exit code 5")

    def test_bad_usage(self):
        script = self.loop()
        for options, sentence in (
            (["--gpu", "voodoo-2"], "unknown GPU 'voodoo-2'"),
            (["--steps", "0"], "expected a whole number of at least 1, not 0"),
            (["-o", "nowhere/step.hrs"], "there is no folder nowhere"),
            (["-o", script], "would replace"),
            (["--frobnicate"], "--frobnicate"),
        ):
            with self.subTest(options):
                self.refused(self.run_script(script, *options), 2, sentence)
        self.refused(self.run_script("missing.py"), 2, "missing.py: there is no such script")

    def test_progress_is_json_and_ends_with_done(self):
        result = self.run_script(self.loop(), "--progress")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
        self.assertEqual(lines[-1], {"stage": "done", "done": 1})
        shares = [line["done"] for line in lines]
        self.assertEqual(shares, sorted(shares))
        self.assertLessEqual({"load", "forward", "backward", "optimizer", "write"}, {line["stage"] for line in lines})

    def test_an_interrupted_recording_leaves_nothing(self):
        script = self.loop(inside="open('here', 'w'); import time; time.sleep(60)")
        process = subprocess.Popen(self.command(script), cwd=self.folder.name, stderr=subprocess.PIPE, text=True)
        here = pathlib.Path(self.folder.name) / "here"
        while not here.exists() and process.poll() is None:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(errors.splitlines()[-1], "torch_headroom.record: interrupted; nothing was written")
        self.assertEqual(list(pathlib.Path(self.folder.name).glob("step*")), [])


    def interrupted(self, script, interrupts):
        """Runs a script, which makes the file `here` when it is in its loop, and sends Ctrl+C so often. Returns the exit
        code, what was printed, and the seconds until the end."""
        process = subprocess.Popen(self.command(script), cwd=self.folder.name, stderr=subprocess.PIPE, text=True)
        here = pathlib.Path(self.folder.name) / "here"
        while not here.exists() and process.poll() is None:
            time.sleep(0.05)
        begin = time.monotonic()
        for _ in range(interrupts):
            os.kill(process.pid, signal.SIGINT)
            time.sleep(0.3)
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors, time.monotonic() - begin

    def test_a_script_that_catches_everything_is_ended(self):
        catches = "while True:\n    try:\n        time.sleep(0.05)\n    except BaseException:\n        pass\n"
        ignores = "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        for name, before, interrupts in (("catches", "", 2), ("catches", "", 1), ("ignores", ignores, 2)):
            with self.subTest(name, interrupts=interrupts):
                pathlib.Path(self.folder.name, "here").unlink(missing_ok=True)
                script = self.written(f"import signal, time\n{before}open('here', 'w')\n{catches}")
                code, errors, seconds = self.interrupted(script, interrupts)
                self.assertEqual(code, 130, errors)
                self.assertEqual(errors.splitlines()[-1], "torch_headroom.record: interrupted; nothing was written")
                self.assertLess(seconds, 8 if interrupts == 2 else 30)

    def test_processes_that_a_script_leaves_end_with_the_recording(self):
        leaves = ("import subprocess\n"
                  "left = subprocess.Popen(['sh', '-c', 'setsid nohup sleep 600 >/dev/null 2>&1 & echo $!'],\n"
                  "                        stdout=subprocess.PIPE, text=True)\n"
                  "open('left', 'w').write(left.stdout.readline())\n")
        for end, code in (("", 0), ("\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)):
            with self.subTest(end):
                loop = textwrap.dedent(_LOOP.format(steps=1 if end else 3, inside="pass"))
                result = self.run_script(self.written(leaves + loop + end))
                self.assertEqual(result.returncode, code, result.stderr)
                left = int(pathlib.Path(self.folder.name, "left").read_text())
                self.assertFalse(pathlib.Path(f"/proc/{left}").exists())

    def test_an_interrupt_that_the_script_catches(self):
        # As trainers do to save what they have: it is an interrupted recording all the same.
        for end in ("", "sys.exit(0)", "sys.exit(3)"):
            with self.subTest(end):
                loop = textwrap.indent(textwrap.dedent(_LOOP.format(steps=3, inside="os.kill(os.getpid(), signal.SIGINT)")), "    ")
                script = self.written(f"import os, signal, sys\ntry:\n{loop}\nexcept KeyboardInterrupt:\n    pass\n{end}\n")
                result = self.run_script(script)
                self.refused(result, 130, "torch_headroom.record: interrupted; nothing was written")
                self.assertFalse(self.step.exists())

    def test_usage_costs_one_line(self):
        for result in (
            subprocess.run([sys.executable, "-m", "torch_headroom.record"], capture_output=True, text=True, cwd=self.folder.name),
            self.run_script("missing.py"),
            self.run_script(self.loop(), "--gpu", "voodoo-2"),
        ):
            self.assertEqual(result.returncode, 2)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertEqual(result.stdout, "")

    def test_help_and_version(self):
        for option in ("--help", "--version", "--gpu=list"):
            result = subprocess.run([sys.executable, "-m", "torch_headroom.record", option], capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), option)
            self.assertNotEqual(result.stdout, "")
        self.assertIn("rtx-4070-ti-super-16gb  NVIDIA", result.stdout)  # the longest name, and its column


if __name__ == "__main__":
    unittest.main()
