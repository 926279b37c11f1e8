# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a step of a script begins and ends: what runs before its loop does not move it, nor does what it makes late."""

import subprocess
import sys
import unittest

import support

support.need("torch")

from recorded_script import Recorded  # noqa: E402

_ADVERSARIAL = """
    import copy, torch
    from torch import nn
    def build(*widths):
        return nn.Sequential(*[nn.Linear(a, b) for a, b in zip(widths[:-1], widths[1:])])
    generator, critic = build(64, 512, 256).cuda(), build(256, 512, 1).cuda()
    {before}
    late = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    {between}
    while True:
        of_generator, of_critic = late
        fake = generator(torch.randn(32, 64, device="cuda"))
        of_critic.zero_grad()
        (critic(fake.detach()).mean() - critic(torch.randn(32, 256, device="cuda")).mean()).backward()
        of_critic.step()
        of_generator.zero_grad()
        (-critic(fake).mean()).backward()
        of_generator.step()
"""
_WHOLE_NETWORK = """
    import torch
    from torch import nn
    from torch.nn import functional as F
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = (torch.randn(4096, 1024, device="cuda") for _ in range(2))
    data = [torch.randn(4096, 1024, device="cuda") for _ in range(2)]
    def train():
        F.mse_loss(model(x), y).backward()
        {eagerly_inside}
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            train()
            {eagerly_outside}
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        train()
    for _ in range(4):
        x.copy_(data[0])
        y.copy_(data[1])
        graph.replay()
        {eagerly_outside}
"""
_MASTERS = """
    import torch
    model = torch.nn.Linear(1024, 1024, bias=False).cuda().bfloat16()
    masters = [parameter.detach().float().requires_grad_() for parameter in model.parameters()]
    points = torch.nn.Parameter(torch.randn(1024, 512, device="cuda"))  # of no module
    optimizer = torch.optim.SGD([*masters, points], lr=0.1, momentum=0.9)
    for _ in range(3):
        (model(torch.randn(64, 1024, device="cuda").bfloat16()).float().square().mean() + points.sigmoid().mean()).backward()
        for master, parameter in zip(masters, model.parameters()):
            master.grad, parameter.grad = parameter.grad.float(), None
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters()):
                parameter.copy_(master)
"""
_DRY_RUN = 'print(critic(generator(torch.randn(4, 64, device="cuda"))).shape)'


class Steps(Recorded):
    def step_of(self, *options, before="", between="", script=_ADVERSARIAL):
        document = self.recorded(script.format(before=before, between=between), *options)
        return document["ops"], document["peak_bytes"], document["phases"]

    def test_masters_and_parameters_of_no_module(self):
        phases = self.step_of(script=_MASTERS)[2]
        self.assertEqual(phases["start"]["parameter"], (2 << 20) + (2 << 20))
        self.assertEqual(phases["start"]["optimizer"], (4 << 20) + (4 << 20) + (2 << 20))
        self.assertEqual(phases["after_backward"]["gradient"], (2 << 20) + (2 << 20))
        self.assertEqual(phases["after_step"]["gradient"], (4 << 20) + (2 << 20))
        self.assertEqual(phases["start"]["other"], 0)

    def test_a_look_at_the_output_begins_none(self):
        plain = self.step_of()
        self.assertEqual(self.step_of(before=_DRY_RUN), plain)
        self.assertEqual(self.step_of(between=_DRY_RUN), plain)
        first = self.step_of("--steps", "1")
        self.assertEqual(self.step_of("--steps", "1", before=_DRY_RUN)[0], first[0])

    def test_modules_that_are_called_while_they_are_made_begin_none(self):
        # A parametrization is called under gradients when it is registered, before there is any optimizer.
        before = "nn.utils.parametrizations.spectral_norm(critic[0])"
        steps = [self.step_of("--steps", count, before=before) for count in ("2", "3")]
        self.assertEqual(steps[0], steps[1])

    def test_an_optimizer_that_is_made_in_the_loop_belongs_to_the_step(self):
        made_late = _ADVERSARIAL.replace("        of_critic.zero_grad()\n", (
            "        of_critic = made = made or torch.optim.Adam(critic.parameters())\n        of_critic.zero_grad()\n"))
        made_late = made_late.replace(", torch.optim.Adam(critic.parameters())\n", ", None\n    made = None\n")
        self.assertEqual(self.step_of(script=made_late), self.step_of())

    def test_steps_of_tries_that_run_out_of_memory_do_not_count(self):
        # The second step of a try fails, as its optimizer has a state then. The model is made anew, or stays.
        script = """
            import gc, torch
            W = 4096
            def made():
                model = torch.nn.Sequential(*(torch.nn.Linear(W, W) for _ in range(20))).cuda()
                return model, torch.optim.AdamW(model.parameters())
            kept = made() if {kept} else None
            def train(batch):
                model, optimizer = kept or made()
                for step in range(3):
                    model(torch.randn(batch, W, device="cuda")).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if step == 0 and batch > 64:
                        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
                    print("step", step, "of", batch, flush=True)
            for batch in 256, 128, 64:
                try:
                    train(batch)
                except torch.OutOfMemoryError:
                    pass
                else:
                    break
                gc.collect()
        """
        plain = self.step_of("--steps", "2", script="""
            import torch
            W = 4096
            model = torch.nn.Sequential(*(torch.nn.Linear(W, W) for _ in range(20))).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                model(torch.randn(64, W, device="cuda")).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        """)
        for kept in False, True:
            self.assertEqual(self.step_of("--steps", "2", script=script.replace("{kept}", str(kept))), plain)

    def test_names_follow_what_is_made_later(self):
        self.recorded("""
            import torch
            class Wrapped(torch.nn.Module):
                def __init__(self, model):
                    super().__init__()
                    self.model = model
                def forward(self, x):
                    return self.model(x).sum()
            model = torch.nn.Sequential(torch.nn.Linear(64, 64)).cuda()
            model(torch.ones(2, 64, device="cuda"))
            loss = Wrapped(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while True:
                loss(torch.ones(2, 64, device="cuda")).backward()
                optimizer.step()
                optimizer.zero_grad()
            """)
        self.assertIn(b"Wrapped.model.0", self.step.read_bytes())
        self.assertNotIn(b"models.", self.step.read_bytes())


class Endings(Recorded):
    """Scripts that do not end when they are told to."""

    _TRAIN = """
        import queue, threading, torch
        model = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        def train():
            optimizer.zero_grad()
            model(torch.randn(8, 64, device="cuda")).sum().backward()
            optimizer.step()
        """

    def test_a_script_that_catches_everything(self):
        self.recorded(self._TRAIN + """
        for _ in range(200):
            try:
                train()
            except:
                pass
        """)
        self.assertEqual(self.noted("steps"), 2)

    def test_a_thread_that_trains(self):
        self.recorded(self._TRAIN + """
        progress = queue.Queue()
        def loop():
            for step in range(200):
                train()
                progress.put(step)
        threading.Thread(target=loop).start()
        while progress.get() < 199:
            pass
        """)
        self.assertEqual(self.noted("steps"), 2)

    _LATE = """
        other = torch.nn.Linear(64, 64).cuda()
        late = torch.optim.SGD(other.parameters(), 0.1, momentum=0.9)
        while True:
            for _ in range({steps}):
                train()
            late.zero_grad()
            other(torch.randn(8, 64, device="cuda")).sum().backward()
            late.step()
        """

    def test_an_optimizer_that_comes_late_belongs_to_the_step(self):
        rarely, often = (self.recorded(self._TRAIN + self._LATE.format(steps=steps)) for steps in (80, 1))
        self.assertEqual(rarely["remarks"], [])
        self.assertEqual(rarely["peak_bytes"], often["peak_bytes"])

    def test_an_optimizer_that_comes_too_late_is_named(self):
        document = self.recorded(self._TRAIN + self._LATE.format(steps=200))
        self.assertTrue(any("SGD made no step in the recorded step, while another optimizer made 128 steps" in remark
                            for remark in document["remarks"]), document)

    def test_ops_of_another_thread_are_named(self):
        document = self.recorded(self._TRAIN + """
        def forward(results):
            results.append(model(torch.randn(8, 64, device="cuda")).sum())
        while True:
            optimizer.zero_grad()
            model(torch.randn(8, 64, device="cuda"))
            results = []
            thread = threading.Thread(target=forward, args=(results,))
            thread.start()
            thread.join()
            results[0].backward()
            optimizer.step()
        """)
        self.assertTrue(any("another thread than the step's ran ops" in remark for remark in document["remarks"]), document)

    def test_deterministic_kernels_are_named(self):
        document = self.recorded(self._TRAIN + """
        torch.use_deterministic_algorithms(True)
        for _ in range(3):
            train()
        """)
        self.assertIn("torch.use_deterministic_algorithms() is on", " ".join(document["remarks"]))

    def test_a_thread_that_pins_memory_is_not(self):
        document = self.recorded(self._TRAIN + """
        data = torch.utils.data.TensorDataset(torch.randn(64, 64))
        while True:
            for batch, in torch.utils.data.DataLoader(data, 8, num_workers=1, pin_memory=True):
                optimizer.zero_grad()
                model(batch.cuda(non_blocking=True)).sum().backward()
                optimizer.step()
        """)
        self.assertEqual(document["remarks"], [])

    def test_a_recording_in_a_recorded_script(self):
        result = self.run_script(self.written("""
        import torch, torch_headroom
        with torch_headroom.record("own.hrs"):
            torch.nn.Linear(4, 4).cuda()(torch.randn(2, 4, device="cuda")).sum().backward()
        """), "--gpu", "a100-80gb")
        self.assertEqual(result.returncode, 2)
        self.assertIn("while a step is being recorded already", result.stderr.splitlines()[-1])


class WithoutOptimizers(Recorded):
    """Loops that change the parameters themselves."""

    _LOOP = """
        import torch
        from torch import nn
        model, head = nn.LSTM(64, 128, 2).cuda(), nn.Linear(128, 64).cuda()
        parameters = [*model.parameters(), *head.parameters()]
        state = None
        for step in range(6):
            model.zero_grad(); head.zero_grad()
            state = None if state is None else tuple(part.detach() for part in state)
            output, state = model(torch.randn(35, 16, 64, device="cuda"), state)
            {backward}
            for parameter in parameters:
                {update}
        """

    def test_a_step_ends_with_the_next_forward(self):
        backward = "head(output).pow(2).mean().backward()"
        for update in ("parameter.data.add_(parameter.grad, alpha=-0.1)",
                       "torch.no_grad()(lambda: parameter.sub_(0.1 * parameter.grad))()"):
            with self.subTest(update):
                document = self.recorded(self._LOOP.format(backward=backward, update=update))
                self.assertIn("there is no torch.optim optimizer, so the step was taken to end with", document["notes"][0])
                self.assertEqual(self.noted("steps"), 2)
                count = 4 * 128 * (64 + 128 + 2) + 4 * 128 * (128 + 128 + 2) + 129 * 64
                self.assertEqual(document["phases"]["after_backward"]["gradient"], 4 * count + 256)  # of the last bias
                again = self.recorded(self._LOOP.format(backward=backward, update=update), "--steps", "3")
                self.assertEqual(again["ops"], document["ops"])

    def test_gradients_of_autograd_grad_are_a_backward_pass(self):
        loss = "loss = head(output).pow(2).mean()"
        update = "torch.no_grad()(lambda: parameter.sub_(0.1 * {}))()"
        by_grad = self.recorded(self._LOOP.format(
            backward=f"{loss}; gradients = dict(zip(parameters, torch.autograd.grad(loss, parameters)))",
            update=update.format("gradients.pop(parameter)")))
        self.assertIn("there is no torch.optim optimizer", by_grad["notes"][0])
        self.assertEqual(self.noted("steps"), 2)
        by_backward = self.recorded(self._LOOP.format(backward=f"{loss}; loss.backward()",
                                                      update=update.format("parameter.grad")))
        self.assertEqual(by_grad["compute_ms"], by_backward["compute_ms"])

    def test_what_changes_the_parameters_is_the_optimizers(self):
        momentum = "buffers.setdefault(parameter, torch.zeros_like(parameter)).mul_(0.9).add_(parameter.grad)"
        documents = [
            self.recorded(self._LOOP.format(
                backward="head(output).pow(2).mean().backward(); batch = output.detach() + 1", update=update).replace(
                    "state = None\n", "state, buffers = None, {}\n", 1))
            for update in ("pass", "parameter.data.sub_(0.1 * parameter.grad)",
                           f"parameter.data.add_({momentum}, alpha=-0.1)")]
        self.assertEqual(*[document["compute_ms"] for document in documents[:2]])
        self.assertEqual(*[document["compute_ms"] for document in documents[1:]])
        self.assertGreater(documents[2]["ops"], documents[1]["ops"])
        phases = documents[2]["phases"]
        self.assertEqual(phases["start"]["optimizer"], phases["start"]["parameter"])
        self.assertEqual(phases["after_step"]["optimizer"], phases["start"]["parameter"])

    def test_what_is_missing_is_said(self):
        for script, sentence in (
            (self._LOOP.format(backward="pass", update="pass"), "train.py made no backward pass; "),
            (self._LOOP.format(backward="torch.autograd.grad(output.sum(), parameters[0], create_graph=True)", update="pass"),
             "train.py took gradients only as a part of the forward (torch.autograd.grad() with create_graph or inside of "
             "a module) and made no backward pass after that; "),
            (self._LOOP.format(backward="sgd = torch.optim.SGD(parameters, lr=0.1)", update="pass").replace(
                "            for", "            output.sum().backward()\n            for"),
             "train.py never called step() of SGD; "),
            (self._LOOP.format(backward="output.sum().backward(); a.step()", update="pass").replace(
                "        for step", "        a, b = torch.optim.SGD(parameters, lr=0.1), torch.optim.Adam([torch.ones(1)])\n"
                "        for step"), "train.py called step() of SGD, but never of Adam; "),
            ("""
             import torch
             weight = torch.ones(3, device="cuda", requires_grad=True)
             for step in range(3):
                 weight.sum().backward()
             """, "train.py has no torch.optim optimizer and calls no module outside of torch.func: put the loop into `with"),
        ):
            with self.subTest(sentence):
                result = self.run_script(self.written(script))
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(sentence, result.stderr.splitlines()[-1])


class ReplacedParameters(Recorded):
    """A parameter that the program replaces within the step stays a parameter. A temporary sets the peak after that."""

    _SCRIPT = """
        import torch
        from torch import nn
        class Plain(torch.optim.Optimizer):
            def __init__(self, parameters):
                super().__init__(parameters, {{}})
            @torch.no_grad()
            def step(self):
                for parameter in self.param_groups[0]["params"]:
                    parameter.data = parameter.data - 0.1 * parameter.grad
        model = nn.Linear(1024, 1024, bias=False).cuda()
        points = torch.randn(1024, 1024, device="cuda", requires_grad=True)
        of_points = torch.optim.SGD([points], 0.1)
        optimizer = {optimizer}(model.parameters(), lr=0.1)
        while True:
            (model(torch.randn(8, 1024, device="cuda")).sum() + points.sum()).backward()
            {replace}
            of_points.step()
            optimizer.step()
            torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
            optimizer.zero_grad()
            of_points.zero_grad()
        """

    def parameters_at_peak(self, replace, optimizer="torch.optim.SGD"):
        script = self._SCRIPT.format(replace=replace, optimizer=optimizer)
        return self.recorded(script)["at_peak"]["parameter"]

    def test(self):
        both = 2 * 4 << 20
        for replace in ("pass", "model.weight.data = model.weight.data * 2",
                        "model.weight.data = model.weight.data.cpu(); model.weight.data = model.weight.data.cuda()",
                        "gradient = model.weight.grad; model.weight = nn.Parameter(model.weight.detach() * 2); "
                        "model.weight.grad = gradient; optimizer.param_groups[0]['params'] = [model.weight]",
                        "gradient = points.grad; points = (points.detach() * 2).requires_grad_(); "
                        "points.grad = gradient; of_points.param_groups[0]['params'] = [points]"):
            with self.subTest(replace):
                self.assertEqual(self.parameters_at_peak(replace), both)
        self.assertEqual(self.parameters_at_peak("pass", "(lambda parameters, lr: Plain(parameters))"), both)

    def test_what_is_assigned_elsewhere(self):
        batch = "batch = torch.zeros(1024, 1024, device='cuda'); batch.data = batch.data * 2"
        self.assertEqual(self.parameters_at_peak(batch), 2 * 4 << 20)


class Transforms(Recorded):
    """Modules inside of vmap and torch.func.grad."""

    def test_a_step_lasts_from_one_of_the_optimizer_to_the_next(self):
        document = self.recorded(
            """
            import torch
            from torch import nn
            from torch.func import functional_call, grad, vmap
            model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            def loss(parameters, x, y):
                return nn.functional.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])
            per_sample = vmap(grad(loss), in_dims=(None, 0, 0))
            while True:
                x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
                gradients = per_sample({name: p.detach() for name, p in model.named_parameters()}, x, y)
                for name, parameter in model.named_parameters():
                    parameter.grad = gradients[name].mean(0)
                del gradients
                optimizer.step()
                optimizer.zero_grad()
            """)
        parameters = 4 * (64 * 256 + 256 + 256 * 10) + 512  # of the last bias
        self.assertEqual(document["phases"]["start"]["parameter"], parameters)
        self.assertEqual(document["phases"]["start"]["optimizer"], parameters)
        self.assertGreater(document["peak_bytes"], 32 * parameters)
        self.assertIn("4 calls of modules ran inside of torch.func (vmap, grad) or torch.autograd.forward_ad, where no checkpoint is possible",
                      document["notes"][0])


class ReplaysOfCudaGraphs(Recorded):
    def step_of(self, steps, captured=True):
        places = ("eagerly_inside", "eagerly_outside")
        step = dict(zip(places, ("optimizer.step()", "pass") if captured else ("pass", "optimizer.step()")))
        document = self.recorded(_WHOLE_NETWORK.format(**step), "--steps", str(steps))
        return document, sum(document["phases"]["after_backward"].values())

    def test_a_replay_of_forward_and_backward_is_a_step(self):
        """As the warm-up's, three steps before: the same memory is alive at each moment."""
        (eager, alive), (replay, alive_in_replay) = self.step_of(3), self.step_of(5)
        self.assertIn("ran on a side stream", " ".join(eager["notes"]))
        self.assertIn("replays a CUDA graph", " ".join(replay["notes"]))
        self.assertEqual(replay["peak_bytes"], eager["peak_bytes"])
        self.assertEqual(alive_in_replay, alive)
        gradients = eager["phases"]["after_backward"]["gradient"]
        self.assertEqual(replay["phases"]["after_backward"]["gradient"], gradients)
        self.assertGreater(gradients, 0)
        # The capture is none: three of the warm-up, four replays.
        script = self.written(_WHOLE_NETWORK.format(eagerly_inside="optimizer.step()", eagerly_outside="pass"))
        self.assertIn("made 7 of 8 steps", self.run_script(script, "--gpu", "a100-80gb", "--steps", "8").stderr)

    def test_an_optimizer_outside_of_the_graph_ends_it(self):
        inside, outside = (self.step_of(5, captured)[0] for captured in (True, False))
        self.assertEqual(outside["peak_bytes"], inside["peak_bytes"])


_RAISING = """
    import torch
    model = torch.nn.Linear(1000, 1000).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        {first}
        loss = model(torch.randn(64, 1000, device="cuda")).sum()
        {inside}
        loss.backward()
        optimizer.step()
        {last}
"""


class Exceptions(Recorded):
    """A step that the script did not bring to its end says so, since it is none to plan."""

    def ended_early(self, first="pass", inside="pass", last="optimizer.zero_grad()"):
        """What the step file of a script that fails says of the step's end; None: nothing."""
        script = self.written(_RAISING.format(first=first, inside=inside, last=last))
        result = self.run_script(script, "--limited", "--steps", "5", "--gpu", "t4-16gb")
        self.assertEqual(result.returncode, 2, result.stderr)
        reason = dict(self.noted("settings")).get("ended early")
        remark = f"the step ended early, by {reason}: the rest is missing, and no plan is possible"
        self.assertEqual(self.noted("remarks"), [remark] if reason else [])
        return reason

    def test_in_the_middle_of_a_step(self):
        self.assertEqual(self.ended_early(inside="assert step == 0, 'too far'"), "AssertionError: too far")
        self.assertEqual(self.ended_early(inside="if step: raise ValueError('bad batch\\nof step 2')"),
                         "ValueError: bad batch")
        self.assertEqual(self.ended_early(inside="if step: raise SystemExit(3)"), "SystemExit: 3")

    def test_after_a_whole_step(self):
        self.assertIsNone(self.ended_early(last="optimizer.zero_grad(); assert step == 0"))
        self.assertIsNone(self.ended_early(first="optimizer.zero_grad()", last="assert step == 0"))

    def test_a_full_card(self):
        self.assertIsNone(self.ended_early(inside="x = torch.empty(2**40, device='cuda')"))

    def test_a_full_card_outside_of_a_step(self):
        """Nothing is recorded there, so that only the message can say where it was."""
        for first in (True, False):
            script = self.written("""
                import torch
                model = torch.nn.Linear(1000, 1000).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                def evaluate():
                    with torch.no_grad():
                        return [model(torch.empty(2**30, 1000, device="cuda"))]
                {first}
                model(torch.randn(64, 1000, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                evaluate()
                """.format(first="evaluate()" if first else ""))
            place = r"train.py: CUDA out of memory.* Line 7 of .*train.py, in evaluate, made the request[;,] "
            result = self.run_script(script, "--gpu", "t4-16gb", "--limited")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("in evaluate\n", result.stderr)
            self.assertRegex(result.stderr.splitlines()[-1], place)
            result = self.run_script(script, "--gpu", "t4-16gb")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stderr, place + "the script is recorded again as on a larger card")

    def test_in_a_block_of_the_program(self):
        script = self.written("""
            import torch_headroom
            torch_headroom.simulate("t4-16gb")
            import torch
            model = torch.nn.Linear(1000, 1000).cuda()
            with torch_headroom.record("step.hrs") as recording:
                for step in range(2):
                    loss = model(torch.randn(64, 1000, device="cuda")).sum()
                    assert step == 0, "too far"
                    loss.backward()
                    recording.step()
        """)
        subprocess.run([sys.executable, script], capture_output=True, cwd=self.folder.name, timeout=300)
        self.assertEqual(dict(self.noted("settings"))["ended early"], "AssertionError: too far")


if __name__ == "__main__":
    unittest.main()
