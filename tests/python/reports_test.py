# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports of memory that runs out or grows: the report's own cause is the first line of `info`. Programs without
such a fault have no cause.

    reports_test.py HEADROOM_PROGRAM

A script has what the report's authors found, with a small model. Most are recorded; those that run out of memory or
grow without a training step leave a memory snapshot, which `info` reads.
"""

import os
import subprocess
import sys
import unittest

import support

support.need("torch")

from recorded_script import Recorded  # noqa: E402


class Reports(Recorded):
    program = ""

    def info(self, path):
        result = subprocess.run([self.program, "info", str(path)], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()

    def check(self, script, cause, comment, gpu="a100-80gb", options=()):
        """The first line of `info` begins with `cause`, and the second names the line of the script with `comment`."""
        result = self.run_script(self.written(script), "--gpu", gpu, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.check_lines(self.info(self.step), cause, comment)

    def check_lines(self, lines, cause, comment):
        script = self.step.with_name("train.py").read_text()
        number = next(at for at, line in enumerate(script.splitlines(), 1) if comment in line)
        self.assertRegex(lines[0], "^Cause     " + cause)
        self.assertRegex(lines[1], rf"^          at train\.py:{number}\b")
        return lines

    def test_losses_are_kept_for_plots(self):
        """microsoft/SpareNet 12: the losses themselves are kept, and one of them has had no backward."""
        self.check("""
            import torch
            from torch import nn
            net = nn.Sequential(*[nn.Sequential(nn.Conv1d(64, 64, 1), nn.BatchNorm1d(64), nn.ReLU()) for _ in range(6)]).cuda()
            optimizer = torch.optim.Adam(net.parameters())
            losses = {"train": [], "distance": []}
            for _ in range(4):
                points = torch.randn(16, 64, 2048, device="cuda")
                loss = net(points).abs().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses["train"].append(loss)
                losses["distance"].append((net(points) - points).square().mean())  # here
            """, "the program keeps .* holds the autograd graph", "# here")
        self.assertNotIn("no_grad", "\n".join(self.info(self.step)))  # the same bytes have one cause

    def test_validation_without_no_grad(self):
        """hszhao/semseg 60: out of memory in validation, which has no torch.no_grad()."""
        self.check("""
            import torch
            from torch import nn
            net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 19, 3, padding=1)).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            criterion = nn.CrossEntropyLoss()
            def batch(size):
                return (torch.randn(size, 3, 256, 256, device="cuda"),
                        torch.zeros(size, 256, 256, dtype=torch.long, device="cuda"))
            def validate():
                net.eval()
                for _ in range(2):
                    image, target = batch(8)
                    loss = criterion(net(image), target)  # here
            for epoch in range(3):
                net.train()
                image, target = batch(2)
                loss = criterion(net(image), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                validate()
            """, r"Sequential ran 2 times with gradients on, .* call the module inside of torch\.no_grad\(\)", "# here")

    def test_adam_needs_more_than_sgd(self):
        """pytorch/pytorch 9439: a VGG trains with SGD, and is out of memory with Adam."""
        self.check("""
            import torch
            from torch import nn
            channels = (3, 64), (64, 128), (128, 256), (256, 512), (512, 512)
            net = nn.Sequential(
                *[nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)) for a, b in channels],
                nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 20)).cuda()
            optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, net.parameters()))
            for _ in range(3):
                images, labels = torch.randn(8, 3, 224, 224, device="cuda"), torch.zeros(8, dtype=torch.long, device="cuda")
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(images), labels).backward()
                optimizer.step()  # here
            """, "the optimizer's state takes .* more than the weights", "# here")

    def test_hidden_states_hold_all_steps(self):
        """pytorch/pytorch 2198: the hidden state of an LSTM goes from batch to batch with its graph."""
        self.check("""
            import torch
            from torch import nn
            rnn, head = nn.LSTM(128, 256, 2).cuda(), nn.Linear(256, 128).cuda()
            optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.0)
            hidden = None
            for _ in range(4):
                data = torch.randn(32, 64, 128, device="cuda")
                out, hidden = rnn(data, hidden)  # here
                loss = (head(out) - data).square().mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
            """, "the program keeps .* holds the autograd graph", "# here")

    def test_a_gradient_penalty_keeps_its_graph(self):
        """akanimax/pro_gan_pytorch 12, pytorch/pytorch 4661: backward(create_graph=True) makes a cycle."""
        self.check("""
            import torch
            from torch import nn
            critic = nn.Sequential(nn.Linear(784, 1024), nn.Softplus(), nn.Linear(1024, 1)).cuda()
            optimizer = torch.optim.Adam(critic.parameters())
            for _ in range(4):
                real, fake = torch.randn(2048, 784, device="cuda"), torch.randn(2048, 784, device="cuda")
                merged = ((real + fake) / 2).requires_grad_()
                out = critic(merged)  # here
                out.backward(torch.ones_like(out), create_graph=True)
                penalty = ((merged.grad.norm(dim=1) - 1) ** 2).mean()
                loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """, "the program keeps .* create_graph", "# here")

    def test_lengths_that_vary(self):
        """pytorch/pytorch 29554: out of memory with room, as batches differ in length and blocks are in pieces."""
        script = """
            import torch
            from torch import nn
            net = nn.Sequential(*[nn.Sequential(nn.Linear(3072, 3072), nn.GELU()) for _ in range(24)]).cuda()
            optimizer = torch.optim.AdamW(net.parameters())
            for tokens in 5461, 6826, 6000:
                net(torch.randn(tokens, 3072, device="cuda")).square().mean().backward()  # here
                optimizer.step()
                optimizer.zero_grad()
            """
        self.check(script, r"fragmentation: a block of \S+ MiB finds no room, while the allocator holds \S+ MiB free, "
                           r"in pieces of at most 28\.00 MiB\. Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True$",
                   "# here", "rtx-4060-8gb")
        ended = self.run_script(self.written(script.replace("6826", "6990")), "--limited", "--gpu", "rtx-4060-8gb")
        self.assertEqual(ended.returncode, 2, ended.stderr)  # the card is full in the recorded step itself
        self.check_lines(self.info(self.step),
                         r"fragmentation: a block of \S+ MiB finds no room, while .* in pieces of at most \S+ MiB \(.*\), "
                         r"the largest beside a block of \S+ MiB from train\.py:\d+", "# here")

    def test_scores_of_attention(self):
        """NVIDIA/Megatron-LM 965: baddbmm, softmax and dropout each keep scores of all queries and keys."""
        self.check("""
            import torch
            from torch import nn
            class Attention(nn.Module):
                def __init__(self, width, heads):
                    super().__init__()
                    self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
                def forward(self, x):
                    batch, length, width = x.shape
                    shape = batch, length, 3, self.heads, width // self.heads
                    q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4).flatten(1, 2)
                    empty = x.new_empty(batch * self.heads, length, length)
                    scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0.0, alpha=0.1)
                    probs = nn.functional.dropout(scores.softmax(-1), 0.1)  # here
                    return self.out((probs @ v).view(batch, self.heads, length, -1).transpose(1, 2).reshape(x.shape))
            model = nn.Sequential(*[Attention(512, 8) for _ in range(3)]).cuda().bfloat16()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                x = torch.randn(1, 2048, 512, device="cuda", dtype=torch.bfloat16)
                model(x).float().square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            """, r"scores of attention are the peak: .* of 2,048 queries and 2,048 keys\. Call scaled_dot_product", "# here")

    def test_gradients_are_freed_after_the_forward(self):
        """karpathy/nanoGPT 71, facebookresearch/detectron2 4905: zero_grad() runs between forward and backward."""
        script = """
            import torch
            from torch import nn
            model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(12)]).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(4):
                loss = model(torch.randn(512, 1024, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """
        cause = r"Cause     gradients of the step before take 48\.\d+ MiB of the peak, until zero_grad\(\) frees"
        result = self.run_script(self.written(script), "--gpu", "a100-80gb")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(self.info(self.step)[0], cause)
        lines = script.splitlines(keepends=True)
        zero = next(line for line in lines if "zero_grad" in line)
        rest = [line for line in lines if line != zero]
        for early in rest[:6] + [zero] + rest[6:], rest[:-1] + [zero]:
            result = self.run_script(self.written("".join(early)), "--gpu", "a100-80gb")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("gradients of the step before", "\n".join(self.info(self.step)))

    def test_an_evaluation_keeps_its_outputs(self):
        """facebookresearch/SlowFast 411: outputs of a whole evaluation are in a list on the GPU, without graphs."""
        script = """
            import torch
            from torch import nn
            net = nn.Sequential(nn.Conv3d(3, 32, 3, padding=1), nn.ReLU()).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            @torch.no_grad()
            def evaluate():
                outputs = []
                for _ in range(8):
                    outputs.append(net(torch.randn(8, 3, 8, 64, 64, device="cuda")))
            for epoch in range(3):
                net(torch.randn(2, 3, 8, 64, 64, device="cuda")).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                evaluate()
            """
        result = self.run_script(self.written(script), "--gpu", "a100-80gb")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(self.info(self.step)[0],
                         r"Cause     memory is highest between two steps, as in an evaluation: .* \d+ blocks of 32\.00 MiB "
                         r"live there together: outputs that are kept")
        result = self.run_script(self.written(script.replace("range(8)", "range(0)")), "--gpu", "a100-80gb")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("between two steps", "\n".join(self.info(self.step)))

    def test_metrics_keep_outputs_with_their_graphs(self):
        """YBIGTA/pytorch-hair-segmentation 28: metric.update((logit, label)) keeps each logit."""
        self.check("""
            import torch
            from torch import nn
            net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 19, 3, padding=1)).cuda()
            optimizer = torch.optim.Adam(net.parameters())
            seen = []
            for step in range(5):
                data = torch.randn(4, 3, 256, 256, device="cuda")
                label = torch.zeros(4, 256, 256, dtype=torch.long, device="cuda")
                logit = net(data)  # here
                loss = nn.functional.cross_entropy(logit, label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen.append((logit, label))
            """, "the program keeps .* of earlier steps, .* keep output.cpu", "# here")

    def test_a_large_segment_is_split_by_what_stays(self):
        """pytorch/pytorch 35901: half of the card cannot be used, as small tensors stay in the segment of a large one."""
        script = self.written("""
            import torch_headroom
            torch_headroom.simulate("rtx-4060-8gb")
            import torch
            from torch.cuda import memory
            memory._record_memory_history(stacks="python")
            def large(gib):
                return torch.empty(gib << 30, dtype=torch.uint8, device="cuda")  # here
            large(5)
            passing, kept = [], []
            for _ in range(24):
                passing.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
                kept.append(torch.empty(16 << 20, dtype=torch.uint8, device="cuda"))  # stays
            passing.clear()
            try:
                large(3)
            except torch.OutOfMemoryError:
                memory._dump_snapshot("snapshot.pickle")
            """)
        result = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=self.folder.name, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = self.check_lines(self.info(self.step.with_name("snapshot.pickle")),
                                 r"fragmentation: a block of 3\.00 GiB finds no room, while the allocator holds \S+ GiB free, "
                                 r"in (pieces of at most|a piece of) \S+ [GM]iB.* beside a block of \S+ MiB from train\.py:\d+",
                                 "# here")
        self.assertIn("expandable_segments", lines[0])

    def test_what_the_device_has_left_and_the_free_pieces_would_do_together(self):
        """The same, where neither the card nor the allocator has the block's bytes alone."""
        script = self.written("""
            import torch_headroom
            torch_headroom.simulate("a100-80gb")
            import torch
            from torch.cuda import memory
            memory._record_memory_history(stacks="python")
            def large(gib):
                return torch.empty(gib << 30, dtype=torch.uint8, device="cuda")  # here
            held = large(60)
            kept = []
            for _ in range(4):
                passing = large(2)
                del passing
                kept.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
                kept.append(torch.empty(1900 << 20, dtype=torch.uint8, device="cuda"))
            del kept[1::2]
            try:
                large(12)
            except torch.OutOfMemoryError:
                memory._dump_snapshot("snapshot.pickle")
            """)
        result = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=self.folder.name, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_lines(self.info(self.step.with_name("snapshot.pickle")),
                         r"fragmentation: a block of 12\.00 GiB finds no room, while the device has 1\d\.\d\d GiB left and "
                         r"the allocator holds 7\.\d\d GiB free, in pieces of at most 1\.\d\d GiB", "# here")

    def test_logits_of_a_large_vocabulary(self):
        """NVIDIA-NeMo/Automodel 3907: all logits of a sequence, of 128,256 words, are made for the loss."""
        self.check("""
            import torch
            from torch import nn
            embed, head = nn.Embedding(128256, 512).cuda().bfloat16(), nn.Linear(512, 128256, bias=False).cuda().bfloat16()
            layers = nn.Sequential(*[nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(4)])
            model = nn.Sequential(embed, layers.cuda().bfloat16(), head)
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                tokens = torch.randint(0, 128256, (4, 2048), device="cuda")
                logits = model(tokens)
                loss = nn.functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten())  # here
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            """, r"logits are the peak: .* of 128,256 columns\. Compute the loss in chunks", "# here")

    def test_a_teacher_gets_gradients(self):
        """lightly-ai/lightly-train 352: the teacher of a distillation has requires_grad."""
        self.check("""
            import torch
            from torch import nn
            def encoder(width):
                layers = [nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0) for _ in range(3)]
                return nn.Sequential(nn.Linear(768, width), *layers, nn.Linear(width, 256)).cuda()
            student, teacher = encoder(128), encoder(768).eval()
            optimizer = torch.optim.AdamW(student.parameters())
            for _ in range(3):
                patches = torch.randn(16, 196, 768, device="cuda")
                loss = nn.functional.smooth_l1_loss(student(patches), teacher(patches))  # here
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """, r"backward makes \S+ MiB of gradients that no optimizer reads, as of a teacher", "# here")

    def test_a_validation_after_several_steps(self):
        """zoogzog/chexnet 12: the sum of a validation's losses holds the graphs of all batches. Nothing grows."""
        self.check("""
            import torch
            from torch import nn
            net = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 14)).cuda()
            optimizer = torch.optim.Adam(net.parameters())
            criterion = nn.BCEWithLogitsLoss()
            def batch():
                return torch.randn(8, 3, 128, 128).cuda(), torch.rand(8, 14).cuda()
            def validate():
                total = 0
                for _ in range(4):
                    images, labels = batch()
                    output = net(images)  # here
                    total += criterion(output, labels)
                return total / 4
            for epoch in range(3):
                for _ in range(2):
                    images, labels = batch()
                    loss = criterion(net(images), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                mean = validate()
            """, "Sequential ran 4 times with gradients on, .*no_grad", "# here", options=("--steps", "3"))

    def test_a_checkpoint_stays_on_the_gpu(self):
        """karpathy/nanoGPT 158: what was loaded to resume the training has a name until the end."""
        self.check("""
            import io, torch
            from torch import nn
            def build():
                return nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda()
            file = io.BytesIO()
            torch.save({"model": build().state_dict()}, file)
            file.seek(0)
            checkpoint = torch.load(file, map_location="cuda")  # here
            model = build()
            model.load_state_dict(checkpoint["model"])
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            """, r"24\.\d+ MiB of the peak are blocks that no op of the step reads, as of a loaded checkpoint", "# here")

    def test_gradients_are_filled_with_zeros(self):
        """MIC-DKFZ/nnUNet 1630, pytorch/pytorch 92731: zero_grad(set_to_none=False) keeps gradients in the forward."""
        script = """
            import torch
            from torch import nn
            model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(12)]).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(4):
                for _ in range(COUNT):
                    model(torch.randn(4096, 1024, device="cuda")).square().mean().backward()  # here
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
            """
        self.check(script.replace("COUNT", "1"), r"gradients of zeros take 4\d\.\d+ MiB of the peak", "# here")
        self.check_no_cause(script.replace("COUNT", "2"))  # the second forward needs the gradients of the first

    def test_a_retained_graph_lives_during_the_next_forward(self):
        """hosseinshn/GradNorm 9, pytorch/pytorch 4890: del output, loss ends the graph of the step before."""
        self.check("""
            import torch
            from torch import nn
            model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 2)).cuda()
            optimizer = torch.optim.Adam(model.parameters(), 1e-4)
            for _ in range(4):
                output = model(torch.randn(4096, 512, device="cuda"))  # here
                first, second = output[:, 0].square().mean(), output[:, 1].abs().mean()
                optimizer.zero_grad()
                first.backward(retain_graph=True)
                second.backward(retain_graph=True)
                optimizer.step()
            """, r"results of the step before take 1[23]\d\.\d+ MiB of the peak, .*retain_graph", "# here")

    def test_boxes_of_all_anchors(self):
        """facebookresearch/maskrcnn-benchmark 18, open-mmlab/mmdetection 1575: overlaps of all anchors and all boxes."""
        self.check("""
            import torch
            from torch import nn
            net = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 36, 3, 2, 1)).cuda()
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            def overlaps(first, second):
                least = torch.max(first[:, None, :2], second[:, :2])
                most = torch.min(first[:, None, 2:], second[:, 2:])
                return (most - least).clamp(min=0).prod(2)  # here
            for _ in range(3):
                scores = net(torch.randn(1, 3, 256, 256, device="cuda"))
                anchors, boxes = torch.rand(36 * 64 * 64, 4, device="cuda"), torch.rand(500, 4, device="cuda")
                matched = overlaps(boxes, anchors).amax(0) > 0.5
                loss = nn.functional.binary_cross_entropy_with_logits(scores.flatten(), matched.float())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """, "results much larger than their inputs are the peak, .* of 500 × 147,456 × 2 elements", "# here")

    def test_distances_of_all_pairs(self):
        """hcw-00/PatchCore_anomaly_detection 19, pytorch/pytorch 57720: by expand(), and by torch.cdist()."""
        script = """
            import torch
            from torch import nn
            encoder = nn.Linear(64, 32).cuda()
            optimizer = torch.optim.Adam(encoder.parameters())
            def by_expand(x, y):
                shape = len(x), len(y), x.shape[1]
                return (x[:, None].expand(shape) - y[None].expand(shape)).pow(2).sum(2)  # expand
            for _ in range(3):
                a, b = encoder(torch.randn(1500, 64, device="cuda")), encoder(torch.randn(1500, 64, device="cuda"))
                loss = by_expand(a, b).amin(1).mean()  # cdist
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """
        cause = "results much larger than their inputs are the peak, .* of 1,500 × 1,500 "
        self.check(script, cause + "× 32 elements", "# expand")
        self.check(script.replace("by_expand(a, b)", "torch.cdist(a, b)"), cause + "elements", "# cdist")

    def test_losses_are_summed_before_a_single_backward(self):
        """OATML/non-parametric-transformers 6: the losses of all minibatches have a single backward pass."""
        script = """
            import torch
            from torch import nn
            body, head = nn.Sequential(nn.Linear(512, 2048), nn.GELU()).cuda(), nn.Linear(2048, 10).cuda()
            optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
            labels = torch.zeros(2048, dtype=torch.long, device="cuda")
            for epoch in range(3):
                optimizer.zero_grad()
                total = 0
                for batch in range(8):
                    if batch == 0 or SEPARATE:
                        features = body(torch.randn(2048, 512, device="cuda"))  # here
                    total = total + nn.functional.cross_entropy(head(features), labels)
                total.backward()
                optimizer.step()
            """
        self.check(script.replace("SEPARATE", "True"),
                   r"the graphs of 8 losses live together: \S+ MiB of .*Call backward\(\) for each loss", "# here")
        result = self.run_script(self.written(script.replace("SEPARATE", "False")), "--gpu", "a100-80gb")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("losses live together", "\n".join(self.info(self.step)))  # heads of the same features

    def test_an_inference_keeps_its_predictions(self):
        """MarvinLvn/voice-type-classifier 12, devnen/Chatterbox-TTS-Server 166: a list, and a cache with graphs."""
        script = self.written("""
            import torch_headroom
            torch_headroom.simulate("a100-80gb")
            import torch
            from torch import nn
            from torch.cuda import memory
            class Layers(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(6)])
                def forward(self, x):
                    kept = []
                    for layer in self.layers:
                        kept.append(layer(x))
                        x = kept[-1] + torch.randn_like(x)
                    return x
            net, cache = Layers().cuda(), {}
            def data():
                return torch.randn(4, 8, 128, 128, device="cuda")
            def predictions():
                with torch.no_grad():
                    return [net(data()) for _ in range(8)]  # list
            def voices():
                for name in range(6):
                    cache[name] = net(data()).mean((2, 3))  # cache
            def each():
                for _ in range(8):
                    net(data()).argmax(1).cpu()
            def one():
                return net(data())
            for function in predictions, voices, each, one:
                memory._record_memory_history(stacks="python", clear_history=True)
                result = function()
                memory._dump_snapshot(function.__name__)
                del result
            """)
        result = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=self.folder.name, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name, comment in ("predictions", "# list"), ("voices", "# cache"):
            self.check_lines(self.info(self.step.with_name(name)), r"memory grows: .* more in each of \d calls", comment)
        for name in "each", "one":
            self.assertNotIn("memory grows", "\n".join(self.info(self.step.with_name(name))))

    def check_no_cause(self, script):
        result = self.run_script(self.written(script), "--gpu", "a100-80gb")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(self.info(self.step)[0], r"^train\.py: ")

    def test_a_prefetched_batch_is_no_growth(self):
        self.check_no_cause("""
            import torch
            from torch import nn
            net = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 64)).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            stream = torch.cuda.Stream()
            def load():
                with torch.cuda.stream(stream):
                    return torch.empty(32, 3, 128, 128).cuda(non_blocking=True)
            following = load()
            for _ in range(4):
                torch.cuda.current_stream().wait_stream(stream)
                images, following = following, load()
                output = net(images.to(memory_format=torch.channels_last))
                optimizer.zero_grad()
                output.square().mean().backward()
                optimizer.step()
            """)

    def test_minibatches_of_a_rollout_are_no_growth(self):
        self.check_no_cause("""
            import torch
            from torch import nn
            class Pixels(nn.Module):
                def forward(self, x):
                    return x.float() / 255
            net = nn.Sequential(Pixels(), nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Flatten(), nn.Linear(12800, 18)).cuda()
            optimizer = torch.optim.Adam(net.parameters())
            for _ in range(3):
                seen = torch.randint(0, 255, (512, 4, 84, 84), dtype=torch.uint8, device="cuda")
                for chosen in torch.randperm(512, device="cuda").split(128):
                    loss = net(seen[chosen]).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """)

    def test_gradients_that_the_program_combines_are_used(self):
        """Gradient surgery: the gradients of each task are taken by torch.autograd.grad, and combined."""
        self.check_no_cause("""
            import torch
            from torch import nn
            body = nn.Sequential(*[nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(3)]).cuda()
            heads = nn.ModuleList([nn.Linear(256, 16) for _ in range(3)]).cuda()
            optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.01, momentum=0.9)
            shared = list(body.parameters())
            for _ in range(3):
                features = body(torch.randn(2, 64, 256, device="cuda")).mean(1)
                losses = [head(features).square().mean() for head in heads]
                tasks = [torch.autograd.grad(loss, shared, retain_graph=True) for loss in losses]
                combined = [torch.stack(gradients).mean(0) for gradients in zip(*tasks)]
                sum(losses).backward()
                for parameter, gradient in zip(shared, combined):
                    parameter.grad.copy_(gradient)
                nn.utils.clip_grad_norm_(shared, 1.0)
                optimizer.step()
                optimizer.zero_grad()
            """)

    def test_gradients_of_another_optimizer_are_used(self):
        """A GAN: the critic's steps run while the generator's gradients of the step before are alive."""
        script = self.written("""
            import torch
            from torch import nn
            generator = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 3072)).cuda()
            critic = nn.Sequential(nn.Linear(3072, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 1)).cuda()
            first, second = (torch.optim.Adam(m.parameters(), 1e-4) for m in (generator, critic))
            for _ in range(3):
                for _ in range(3):
                    with torch.no_grad():
                        fake = generator(torch.randn(512, 256, device="cuda"))
                    loss = critic(fake).mean() - critic(torch.randn(512, 3072, device="cuda")).mean()
                    second.zero_grad()
                    loss.backward()
                    second.step()
                loss = -critic(generator(torch.randn(512, 256, device="cuda"))).mean()
                first.zero_grad()
                loss.backward()
                first.step()
            """)
        self.assertEqual(self.run_script(script, "--gpu", "a100-80gb").returncode, 0)
        causes = self.info(self.step)
        self.assertIn("until zero_grad() frees the gradients unread", causes[0])
        self.assertNotIn("no optimizer reads", "\n".join(causes))

    def test_activations_are_no_logits(self):
        """The time of a sequence is the last dimension of the loss, and positions are as many as features."""
        self.check_no_cause("""
            import torch
            from torch import nn
            body = nn.Sequential(nn.Conv1d(64, 256, 3, padding=1), nn.ReLU(), nn.Conv1d(256, 256, 3, padding=1), nn.ReLU())
            positions, head = nn.Embedding(1600, 64).cuda(), nn.Linear(256, 40).cuda()
            body.cuda()
            optimizer = torch.optim.AdamW([*body.parameters(), *positions.parameters(), *head.parameters()])
            place = torch.arange(1600, device="cuda")
            for _ in range(3):
                x, y = torch.randn(16, 1600, 64, device="cuda"), torch.randint(0, 40, (16, 1600), device="cuda")
                logits = head(body((x + positions(place)).transpose(1, 2)).transpose(1, 2))
                loss = nn.functional.cross_entropy(logits.transpose(1, 2), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            """)

    def test_logits_with_classes_in_the_middle(self):
        self.check("""
            import torch
            from torch import nn
            embed, head = nn.Embedding(32000, 256).cuda(), nn.Linear(256, 32000, bias=False).cuda()
            optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], 0.1)
            for _ in range(3):
                tokens = torch.randint(0, 32000, (4, 1024), device="cuda")
                loss = nn.functional.cross_entropy(head(embed(tokens)).transpose(1, 2), tokens)  # here
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """, r"logits are the peak: .* of 32,000 classes\. Compute the loss in chunks", "# here")

    def test_a_clipped_teacher_gets_gradients(self):
        self.check("""
            import torch
            from torch import nn
            student, teacher = nn.Linear(768, 768).cuda(), nn.Sequential(nn.Linear(768, 3072), nn.Linear(3072, 768)).cuda()
            optimizer = torch.optim.AdamW(student.parameters())
            for _ in range(3):
                x = torch.randn(64, 768, device="cuda")
                loss = nn.functional.mse_loss(student(x), teacher(x))  # here
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_([*student.parameters(), *teacher.parameters()], 1.0)
                optimizer.step()
            """, r"backward makes \S+ MiB of gradients that no optimizer reads, as of a teacher", "# here")

    def test_a_frozen_backbone_saves_activations(self):
        script = """
            import torch
            from torch import nn
            backbone = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.Conv2d(64, 256, 3, 2, 1), nn.ReLU())
            net = nn.Sequential(backbone, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)).cuda()
            images = nn.Parameter(torch.randn(16, 3, 128, 128, device="cuda"))
            optimizer = torch.optim.SGD(net[3].parameters(), 0.1)
            for _ in range(3):
                output = net(images.detach())  # here
                optimizer.zero_grad()
                nn.functional.cross_entropy(output, torch.zeros(16, dtype=torch.long, device="cuda")).backward()
                optimizer.step()
            """
        cause = r"backward makes \d+\.\d+ KiB of gradients that no optimizer reads, as of a teacher or of a frozen model"
        self.check(script, cause + r", from \d\d\.\d+ MiB that the forward saves for nothing else", "# here")
        self.check_no_cause(script.replace("(net[3].parameters()", "([images, *net[3].parameters()]")
                            .replace("images.detach()", "images"))  # the backbone leads to an input that is trained

    def test_a_sum_of_validation_losses(self):
        """pytorch/pytorch 4932, 4420: each loss of a validation is added up, and all graphs live until its end."""
        self.check("""
            import torch
            from torch import nn
            net = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 64)).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            images, labels = torch.randn(16, 3, 128, 128, device="cuda"), torch.zeros(16, dtype=torch.long, device="cuda")
            for _ in range(3):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(images), labels).backward()
                optimizer.step()
                total = 0
                for _ in range(3):
                    total += nn.functional.cross_entropy(net(images), labels)  # here
            """, "Sequential ran 3 times with gradients on, .*no_grad", "# here")

    def test_predictions_are_gathered_on_the_gpu(self):
        """huggingface/transformers 7232: an evaluation concatenates its predictions on the GPU. A snapshot shows a loop."""
        script = self.written("""
            import torch_headroom
            torch_headroom.simulate("a100-80gb")
            import sys, torch
            from torch import nn
            from torch.cuda import memory
            net = nn.Sequential(nn.Embedding(30000, 128), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 30000)).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            def loop(name, step, count=8):
                memory._record_memory_history(stacks="python", clear_history=True)
                kept = [step(None)]
                for _ in range(count - 1):
                    kept = [step(kept)]
                memory._dump_snapshot(name)
            def logits():
                return net(torch.randint(0, 30000, (4, 128), device="cuda"))
            @torch.no_grad()
            def evaluate(kept):
                return logits() if kept is None else torch.cat((kept[0], logits()))  # evaluation
            def train(kept):
                logits().square().mean().backward()  # training
                optimizer.step()
                optimizer.zero_grad()
                return kept
            def append(kept):
                return [train(None), *(kept or []), logits().square().mean()]
            loop("evaluate", evaluate)
            loop("train", train)
            loop("two", train, 2)
            loop("append", append)
            """)
        result = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=self.folder.name, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = self.check_lines(self.info(self.step.with_name("evaluate")),
                                 r"memory grows: a line has .* in 1 block, and took 58\.59 MiB more in each of 5 calls",
                                 "# evaluation")
        self.assertIn("cpu()", lines[0])
        for name in "train", "two":
            self.assertNotIn("memory grows", "\n".join(self.info(self.step.with_name(name))))
        self.assertRegex(self.info(self.step.with_name("append"))[0], r"memory grows: .* in each of \d steps")


if __name__ == "__main__":
    Reports.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
