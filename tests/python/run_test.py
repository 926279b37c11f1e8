# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m torch_headroom.run` and auto_checkpoint() as processes: what is recorded and what is kept, what a script
sees of it, plans that run on the simulated card, and what is refused."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import run_stacks
import support

support.need("torch")

from recorded_script import fork_servers  # noqa: E402

_GPU = "a100-80gb"
_HAS_GPU = pathlib.Path("/dev/nvidia0").exists()
_SCRIPTS = pathlib.Path(__file__).with_name("scripts")
# The workspaces of cuBLAS are no part of the simulated card's segments, and of the plan's only where there are some.
_NO_WORKSPACES = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0"}
_NET = """
    import os, sys, torch
    from torch import nn
    device = "cuda" if torch.cuda.is_available() else "cpu"
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)
        def forward(self, x):
            return x + self.down(torch.tanh(self.up(x)))
    class Net(nn.Sequential):
        pass
    def net():
        return Net(*(Block() for _ in range(6))).to(device)
    def is_planned(model):
        return any("forward" in vars(module) for module in model.modules())
    torch.manual_seed(3)
"""
_LOOP = """
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(5):
        loss = model(torch.randn(2048, 128, device=device)).pow(2).mean()
        loss.backward()
        print(step, loss.item().hex(), [p.grad.sum().item().hex() for p in model.parameters()][::9])
        optimizer.step()
        optimizer.zero_grad()
"""


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def written(self, text, name="train.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def started(self, *command, **environment):
        environment = os.environ | fork_servers(_GPU) | {"XDG_CACHE_HOME": str(self.folder / "cache")} | environment
        return subprocess.run([sys.executable, *map(str, command)], cwd=self.folder, capture_output=True, text=True,
                              timeout=300, env=environment)

    def run_script(self, *arguments, **environment):
        return self.started("-m", "torch_headroom.run", *arguments, **environment)

    def dry_run(self, *arguments, **environment):
        """What would be done, as JSON, and the sentences."""
        done = self.run_script("--dry-run", "--json", "--gpu", _GPU, *arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def budget(self, *arguments, share=0.8, **environment):
        """A share of what the script reserves without a plan, in bytes."""
        return int(self.dry_run(*arguments, **environment)[0]["card"]["reserved_peak_bytes"] * share)

    def assert_refused(self, done, code, sentence):
        lines = done.stderr.strip().splitlines()
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(lines[-1], f"^torch_headroom.run: .*{sentence}")
        self.assertNotIn("Traceback", done.stderr)


class Offload(Runs):
    def test_a_plan_may_recompute_nothing(self):
        script = self.written(_NET + "    model = net()\n" + _LOOP)
        budget = self.budget(script)
        plan, sentences = self.dry_run("--budget", budget, "--offload", "--no-recompute", script)
        self.assertEqual(plan["recompute_ms"], 0)
        self.assertGreater(plan["offload"]["moved_bytes"], 0)
        self.assertEqual(plan["decisions"], {})
        self.assertIn("offloaded", sentences)
        pinned, _ = self.dry_run("--budget", budget, "--offload", "--no-recompute", "--pin", "Net.0=recompute", script)
        self.assertEqual(list(pinned["decisions"]), ["Net.0"])
        pinned, _ = self.dry_run("--budget", budget, "--pin", "Net.1=save", "--pin", "Net.2=offload", script)
        self.assertNotIn("Net.1", pinned["decisions"])
        self.assertEqual(list(pinned["offload"]["modules"]), ["Net.2"])
        plan, _ = self.dry_run("--budget", budget, script)  # a kept plan of other options is not taken
        self.assertGreater(plan["recompute_ms"], 0)


class Kept(Runs):
    def recorded_because(self, *arguments, **environment):
        """Why a start recorded a step; empty: it was kept."""
        _, sentences = self.dry_run(*arguments, **environment)
        found = re.search(r"recording a step of .*, as (.*)", sentences)
        return found[1] if found else ""

    def test_a_step_is_recorded_when_what_decides_it_changes(self):
        self.written("LAYERS = 4", "sizes.py")
        (self.folder / "config.json").write_text('{"width": 64}')
        script = self.written("""
            import json, os, pathlib, sys, torch, sizes
            with open("started.txt", "a") as file:
                file.write("x")
            width = json.loads(pathlib.Path("config.json").read_text())["width"]
            rows = int(os.environ.get("ROWS", 64))
            model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(sizes.LAYERS))).cuda()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(3):
                model(torch.randn(rows, width, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """)
        self.assertIn("none is kept", self.recorded_because(script))
        self.assertEqual(self.recorded_because(script), "")
        self.assertIn("none is kept", self.recorded_because(script, "--an-argument"))
        self.assertEqual(self.recorded_because(script, "--an-argument"), "")
        self.assertIn("none is kept", self.recorded_because(script, CUBLAS_WORKSPACE_CONFIG=":0:0"))
        self.assertEqual(self.recorded_because(script, UNREAD="1"), "")
        self.assertIn("variable ROWS", self.recorded_because(script, ROWS="32"))
        self.assertIn("variable ROWS", self.recorded_because(script))
        self.written("LAYERS = 5", "sizes.py")
        self.assertIn("sizes.py has changed", self.recorded_because(script))
        (self.folder / "config.json").write_text('{"width": 32}')
        self.assertIn("config.json has changed", self.recorded_because(script))
        script.write_text(script.read_text() + "\n")
        self.assertIn("train.py has changed", self.recorded_because(script))
        self.assertEqual(self.recorded_because(script), "")
        self.assertEqual(len((self.folder / "started.txt").read_text()), 8)

    def test_a_dry_run_does_not_train(self):
        script = self.written(_NET + """
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        model(torch.randn(64, 128, device=device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained")
    open("trained", "w")
        """)
        done = self.run_script("--dry-run", "--gpu", _GPU, script)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("the step fits without a plan", done.stderr)
        self.assertFalse((self.folder / "trained").exists())
        self.assertIn("trained", self.run_script("--gpu", _GPU, script).stdout)

    def test_a_step_without_layers_of_earlier_steps(self):
        """Layers that are dropped at random, as by layerdrop: a later step may run more layers than the recorded one."""
        script = self.written(_NET + """
    class Dropped(Block):
        calls = 0
        def __init__(self, step):
            super().__init__()
            self.step = step
        def forward(self, x):
            self.calls += 1
            return super().forward(x) if self.calls != self.step else x
    model = Net(Block(), Dropped(2), Dropped(1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(5):
        model(torch.randn(2048, 128, device=device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        """)
        done = self.run_script("--dry-run", "--gpu", _GPU, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the recorded step ran without 2 modules that earlier steps ran (Net.1.down)", done.stderr)


class AsWithoutTheCommand(Runs):
    _DEVICE = ["--device", "cpu", "--gpu", _GPU]

    def check(self, script, *arguments, share=0.8):
        """Runs the script on the CPU, with a plan for a small card and as it is."""
        budget = self.budget(script, *arguments, share=share)
        planned = self.run_script(*self._DEVICE, "--budget", budget, script, *arguments)
        self.assertRegex(planned.stderr, r"torch_headroom.run: \d+ modules? checkpointed")
        plain = self.started(script, *arguments)
        self.assertEqual(planned.stdout, plain.stdout)
        self.assertEqual(planned.returncode, plain.returncode)
        own = [line for line in planned.stderr.splitlines() if not line.startswith("torch_headroom.run: ")]
        self.assertEqual("\n".join(own), plain.stderr.rstrip("\n"))
        return plain

    def test_losses_and_gradients_arguments_and_names(self):
        plain = self.check(self.written(_NET + "    model = net()" + _LOOP + """
    print(sys.argv, __name__, os.path.basename(__file__), sys.path[0], sys.modules["__main__"].Net is Net)
        """), "--lr", "0.1", "-m")
        self.assertEqual(plain.returncode, 0)
        self.assertEqual(plain.stdout.count("0x"), 5 * 4)

    def test_tracebacks(self):
        plain = self.check(self.written(_NET + "    model = net()" + _LOOP + """
    def inner():
        raise ValueError("of the script")
    inner()
        """))
        self.assertEqual(plain.returncode, 1)
        self.assertIn("in inner", plain.stderr)

    def test_exit_codes(self):
        self.assertEqual(self.check(self.written(_NET + "    model = net()" + _LOOP + "    sys.exit(7)")).returncode, 7)
        plain = self.check(self.written(_NET + "    model = net()" + _LOOP + "    sys.exit('a sentence')"))
        self.assertEqual((plain.returncode, plain.stderr), (1, "a sentence\n"))

    def test_modules_of_a_package(self):
        (self.folder / "package").mkdir()
        (self.folder / "package" / "__init__.py").touch()
        self.written(_NET + "    model = net()" + _LOOP + "    print(sys.argv[1:], __name__, __spec__.name)",
                     "package/train.py")
        budget = self.budget("-m", "package.train", "x")
        done = self.run_script(*self._DEVICE, "--budget", budget, "-m", "package.train", "x")
        self.assertIn("checkpointed", done.stderr)
        self.assertEqual(done.stdout, self.started("-m", "package.train", "x").stdout, done.stderr)


class Applied(Runs):
    """To the models that were recorded, wherever the program makes them."""

    def check(self, text, *lines):
        script = self.written(_NET + text)
        budget = self.budget(script)
        done = self.run_script("--device", "cpu", "--gpu", _GPU, "--budget", budget, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("checkpointed", done.stderr)
        self.assertEqual(done.stdout.splitlines()[-len(lines):], list(lines), done.stderr)

    def test_one_of_two_models_of_a_class(self):
        self.check("""
    teacher, model = net().requires_grad_(False), net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(3):
        x = torch.randn(2048, 128, device=device)
        (model(x) - teacher(x)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(is_planned(teacher), is_planned(model))
        """, "False True")

    def test_a_model_that_is_changed_after_a_first_look(self):
        self.check("""
    model = net()
    print(model(torch.randn(2, 128, device=device)).shape)
    model.append(Block().to(device))
    model = nn.Sequential(model, nn.Linear(128, 128).to(device))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(3):
        model(torch.randn(2048, 128, device=device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(is_planned(model))
        """, "True")

    def test_a_model_with_an_average_of_its_weights_that_is_evaluated_first(self):
        self.check("""
    model = net()
    average = torch.optim.swa_utils.AveragedModel(model)
    with torch.no_grad():
        model.eval()(torch.randn(2, 128, device=device))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(3):
        model(torch.randn(2048, 128, device=device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
    print(is_planned(model), is_planned(average))
        """, "True False")

    def test_a_program_that_trains_another_model_is_refused(self):
        script = self.written(_NET + """
    class Other(Net):
        pass
    model = net() if device == "cuda" else nn.Linear(128, 128)
        """ + _LOOP.replace("[::9]", "[:1]"))
        done = self.run_script("--device", "cpu", "--gpu", _GPU, "--budget", self.budget(script), script)
        self.assert_refused(done, 2, "called no Net under gradients")
        script = self.written(_NET + """
    model = net()
    if device == "cpu":
        model = Net(*list(model)[:2])
        """ + _LOOP)
        done = self.run_script("--device", "cpu", "--gpu", _GPU, "--budget", self.budget(script), script)
        self.assert_refused(done, 2, "the model has no module Net")


class OnTheCard(Runs):
    def check(self, script, share=0.8, **environment):
        budget = self.budget(script, share=share, **environment)
        answer, _ = self.dry_run("--budget", budget, script, **environment)
        output = self.folder / "measured.json"
        done = self.started(run_stacks.__file__, "--measured", output, "--gpu", _GPU, "--budget", budget, script,
                            **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = json.loads(output.read_text())
        self.assertGreaterEqual(measured["steps"], 5)
        self.assertLessEqual(measured["reserved"], budget)
        return answer, measured["reserved"]

    def test_an_evaluation_counts(self):
        script = self.written(_NET + """
    from torch.utils.data import DataLoader, TensorDataset
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    small, large = (DataLoader(TensorDataset(torch.randn(count, 128)), batch_size=count // 4)
                    for count in (1024, 65536))
    for epoch in range(3):
        for batch, in small:
            model(batch.to(device)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            for batch, in large:
                model(batch.to(device))
        """)
        answer, reserved = self.check(script, share=1, **_NO_WORKSPACES)
        self.assertEqual(reserved, answer["card"]["reserved_peak_bytes"])
        without, _ = self.dry_run("--no-evaluation", script, **_NO_WORKSPACES)
        self.assertLess(without["card"]["reserved_peak_bytes"], reserved / 2)

    def test_the_reserved_peak_is_the_predicted_one(self):
        answer, reserved = self.check(_SCRIPTS / "card_gpt.py", **_NO_WORKSPACES)
        self.assertEqual(reserved, answer["card"]["reserved_peak_bytes"])
        self.assertGreater(answer["recompute_ms"], 0)

    def test_settings_of_the_user_stay(self):
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512"}
        answer, _ = self.check(_SCRIPTS / "card_gpt.py", **settings)
        self.assertIn("max_split_size_mb:512", answer["card"]["settings"])
        self.assertIn("per_process_memory_fraction:", answer["card"]["settings"])

    def test_a_script_with_workers_and_evaluations(self):
        self.check(_SCRIPTS / "image_classifier.py")

    def test_a_script_with_accumulation_and_autocast(self):
        self.check(_SCRIPTS / "language_model.py", 0.95)


    def test_memory_that_comes_after_the_recorded_step(self):
        # Without biases: the sums of a bias's gradient take scratch memory on a card, and not on the simulated one.
        no_biases = _NET.replace("512)", "512, bias=False)").replace("128)\n", "128, bias=False)\n")
        script = self.written(no_biases + "    model = net()\n" + _LOOP + """
        if step == 3:
            kept = torch.zeros(20 << 20, dtype=torch.uint8, device=device)
""")
        budget = self.budget(script, share=1.05, **_NO_WORKSPACES)
        done = self.run_script("--gpu", _GPU, "--budget", budget, script, **_NO_WORKSPACES)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], r"train\.py: out of memory on [0-9.]+ MiB of NVIDIA A100-\S+, though "
                                                       r"the recorded step leaves .* --margin SIZE$")
        done = self.run_script("--gpu", _GPU, "--budget", budget, "--margin", "12MiB", script, **_NO_WORKSPACES)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("checkpointed", done.stderr)


class Refused(Runs):
    def test_wrong_usage(self):
        script = self.written("")
        cases = {
            (): "a script is missing",
            ("no.py",): "no.py: there is no such script",
            ("--json", script): "expected --dry-run as well",
            ("torchrun", script): "several processes",
            ("--what", script): "--help",
            ("--gpu", "gtx-9999", script): "unknown GPU 'gtx-9999'",
        }
        for arguments, sentence in cases.items():
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_script(*arguments), 2, sentence)
        self.assert_refused(self.run_script(script, WORLD_SIZE="2"), 2, "several processes")

    @unittest.skipIf(_HAS_GPU, "this machine has a GPU")
    def test_a_machine_without_a_gpu(self):
        script = self.written("")
        self.assert_refused(self.run_script(script), 4, "has no GPU: name the card")
        self.assert_refused(self.run_script("--device", "cuda", "--gpu", _GPU, script), 4, "has no GPU to train on")

    def test_scripts_that_cannot_be_planned(self):
        done = self.run_script("--gpu", _GPU, self.written("print('nothing')"))
        self.assert_refused(done, 2, "no step could be recorded: .* trained nothing")
        done = self.run_script("--gpu", _GPU, self.written("def f(): raise KeyError('x')\nf()"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("in f", done.stderr)
        script = self.written(_NET + "    model = net()" + _LOOP)
        self.assert_refused(self.run_script("--gpu", _GPU, "--budget", "1MiB", script), 3, "no plan runs on 1.00 MiB")
        for option, size in (("budget", "much"), ("budget", "8GB"), ("margin", "")):
            done = self.run_script("--gpu", _GPU, f"--{option}", size, script)
            self.assert_refused(done, 2, f"{option} `{size}` is not a size: expected bytes, or a number with KiB, MiB or GiB")
            self.assertNotIn("recording", done.stderr)
        self.assert_refused(self.run_script("--gpu", _GPU, "--no-recompute", script), 2, "can only offload: expected")
        self.assert_refused(self.run_script("--gpu", _GPU, "--pin", "Net.0", script), 2, "--pin `Net.0`: expected FQN=save")
        self.assert_refused(self.run_script("--gpu", _GPU, "--pin", "Net.9=save", script), 2, "cannot pin `Net.9`: no module")


class AutoCheckpoint(Runs):
    _STEP = """
    import torch_headroom
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    def train():
        loss = model(torch.randn(2048, 128, device=device)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item().hex()
    """

    def test_a_step_is_planned_and_the_program_stays_as_it_is(self):
        program = _NET + self._STEP + """
    before = torch.get_rng_state(), {name: value.clone() for name, value in model.state_dict().items()}
    if len(sys.argv) > 1:
        done = torch_headroom.auto_checkpoint(model, train, budget=sys.argv[1], gpu="a100-80gb")
        print(done, bool(done.modules), is_planned(model), file=sys.stderr)
    assert torch.equal(before[0], torch.get_rng_state()) and not optimizer.state
    assert all(torch.equal(value, before[1][name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    print([train() for _ in range(3)])
        """
        plain = self.started(self.written(program))
        planned = self.started(self.written(program), "76.3MiB")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertEqual(planned.stdout, plain.stdout)
        self.assertTrue(planned.stderr.endswith("True True\n"), planned.stderr)
        again = self.started(self.folder / "train.py", "76.3MiB")
        self.assertEqual((again.stdout, "recording" in again.stderr), (plain.stdout, False), again.stderr)

    def test_on_the_simulated_card(self):
        simulated = "import torch_headroom\ntorch_headroom.simulate('a100-80gb')\n"
        done = self.started(self.written(simulated + textwrap.dedent(_NET + self._STEP + """
    done = torch_headroom.auto_checkpoint(model, train, budget="76.3MiB")
    for _ in range(5):
        train()
    print(done.reserved_peak_bytes, torch.cuda.max_memory_reserved())
        """)), **_NO_WORKSPACES)
        self.assertEqual(done.returncode, 0, done.stderr)
        predicted, reserved = map(int, done.stdout.split())
        self.assertEqual(predicted, reserved)

    def test_what_is_refused(self):
        cases = {
            "torch_headroom.auto_checkpoint(model, train, budget='1MiB', gpu='a100-80gb')": "no plan runs on 1.00 MiB",
            "torch_headroom.auto_checkpoint(model, lambda: None, gpu='a100-80gb')": "made no whole training step",
            "torch_headroom.auto_checkpoint(model, train, '8GB', 'a100-80gb')": "budget `8GB` is not a size: expected bytes",
            "torch_headroom.auto_checkpoint(model, train, gpu='a100-80gb', pins={'Net.9': 'save'})": "cannot pin `Net.9`",
        }
        if not _HAS_GPU:
            cases["torch_headroom.auto_checkpoint(model, train)"] = "this machine has no GPU: name the card"
        for call, sentence in cases.items():
            with self.subTest(call=call):
                done = self.started(self.written(_NET + self._STEP + f"\n    {call}\n"))
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr.splitlines()[-1], f"HeadroomError: .*{sentence}")
        done = self.started("-c", "import torch_headroom as t; t.auto_checkpoint(None, None, gpu='a100-80gb')")
        self.assertIn("this program has no script", done.stderr)


if __name__ == "__main__":
    unittest.main()
