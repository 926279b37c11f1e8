# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torchao's CPUOffloadOptimizer beside what torchao/optim/README.md (commit 36027d82d) published of it: ViT-g/14 in
bfloat16 with checkpoints, 32 images of 224², on an RTX 4070 Ti SUPER.

    published_offload_test.py HEADROOM_PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

support.need("torch", "timm", "torchao")

_PROGRAM = sys.argv.pop()
_PUBLISHED = {"none": (1.27, 9.82), "gradients": (1.53, 4.01)}  # s a step, GB allocated
_CUBLAS = 19136512  # bytes of workspaces, which PyTorch counts as allocated
_SCRIPT = """
import sys

import timm
import torch
from torchao.optim import CPUOffloadOptimizer

with torch.device("cuda"):
    model = timm.create_model("vit_giant_patch14_dinov2", num_classes=45, img_size=224)
model.set_grad_checkpointing()
model.bfloat16().train()
settings = {"lr": 1e-4, "weight_decay": 0, "fused": True}
if sys.argv[1] == "none":
    optimizer = torch.optim.AdamW(model.parameters(), **settings)
else:
    optimizer = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW,
                                    offload_gradients=sys.argv[1] == "gradients", **settings)
for _ in range(3):
    images, labels = torch.randn(32, 3, 224, 224).bfloat16(), torch.randint(0, 45, (32,))
    torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class PublishedOffload(unittest.TestCase):
    def test_an_optimizer_on_the_cpu(self):
        for what, (seconds, gigabytes) in _PUBLISHED.items():
            with self.subTest(what), tempfile.TemporaryDirectory() as folder:
                script, step = pathlib.Path(folder, "train.py"), pathlib.Path(folder, "step.hrs")
                script.write_text(_SCRIPT)
                recorder = [sys.executable, "-m", "torch_headroom.record", "--gpu", "rtx-4070-ti-super-16gb",
                            "--no-source-lines"]
                subprocess.run([*recorder, "-o", step, script, what], check=True, capture_output=True)
                said = json.loads(subprocess.run([_PROGRAM, "info", "--json", step], check=True, capture_output=True,
                                                 text=True).stdout)
                self.assertLess(abs((said["peak_bytes"] + _CUBLAS) / 1e9 / gigabytes - 1), 0.02)
                self.assertLess(abs(said["clock"]["step_ms"] / 1e3 / seconds - 1), 0.15)


if __name__ == "__main__":
    unittest.main()
