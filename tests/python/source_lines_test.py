# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded script has the lines that take the memory, and `info` names the cause first.

    source_lines_test.py HEADROOM_PROGRAM
"""

import json
import os
import subprocess
import sys
import unittest

import support

support.need("torch")

from recorded_script import Recorded  # noqa: E402

_SCRIPT = """
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(512, 2048), nn.Linear(2048, 512)
        def forward(self, x):
            return self.down(nn.functional.gelu(self.up(x)))  # the block's line
    def stack():
        return nn.Sequential(*[Block() for _ in range(3)]).cuda()  # the weights' line
    net, teacher, kept = stack(), stack(), []
    head = nn.Linear(512, 50000).cuda()
    optimizer = torch.optim.AdamW([*net.parameters(), *head.parameters()])
    for _ in range(4):
        x = torch.randn(4096, 512, device="cuda")
        out = net(x)
        loss = out.square().mean()
        CHANGE
        loss.backward()
        optimizer.step()  # the state's line
        optimizer.zero_grad()
"""


def _line_of(comment):
    return next(number for number, line in enumerate(_SCRIPT.splitlines(), 1) if comment in line)


class SourceLines(Recorded):
    program = ""

    def info(self, change="pass", *arguments):
        self.recorded(_SCRIPT.replace("CHANGE", change), *arguments)
        result = subprocess.run([self.program, "info", str(self.step), "--json"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def cause(self, change):
        causes = self.info(change)["causes"]
        self.assertTrue(causes, change)
        return causes[0]

    def test_the_bytes_at_the_peak_have_lines(self):
        info = self.info()
        lines = info["lines_at_peak"]
        self.assertEqual(sum(line["bytes"] for line in lines), info["peak_bytes"])
        of = {}
        for line in lines:
            for frame in line.get("frames", [])[:1]:
                key = frame["line"], line["category"]
                of[key] = of.get(key, 0) + line["bytes"]
        self.assertEqual(of[_line_of("# the weights' line"), "parameter"], 2 * 3 * 4 * (2 * 512 * 2048 + 2048 + 512))
        self.assertIn((_line_of("# the block's line"), "activation"), of)
        self.assertIn((_line_of("# the state's line"), "optimizer"), of)

    def test_they_can_be_left_out(self):
        self.assertNotIn("lines_at_peak", self.info("pass", "--no-source-lines"))

    def test_a_step_without_a_mistake_has_no_cause(self):
        self.assertEqual(self.info("pass")["causes"], [])

    def test_code_that_the_program_drops_is_gone(self):
        """With code go its globals: torch.compile keeps there what a compiled graph holds."""
        self.info("import weakref; code = compile('loss + 1', 'made', 'eval'); eval(code); gone = weakref.ref(code); "
                  "del code; assert gone() is None")

    def test_a_kept_output_is_growth(self):
        self.assertEqual(self.cause("kept.append(net(x).mean())")["cause"], "growth")

    def test_a_forward_without_a_backward_is_named(self):
        cause = self.cause("loss = loss + (teacher(x).detach() - out).square().mean()")
        self.assertEqual(cause["cause"], "unused_forward")
        self.assertIn("Block.forward", cause["line"])

    def test_gradients_that_no_optimizer_reads_are_named(self):
        cause = self.cause("loss = loss + (teacher(x) - out).square().mean()")
        self.assertEqual(cause["cause"], "unused_gradients")
        self.assertIn("makes 24.03 MiB of gradients", cause["sentence"])
        self.assertGreater(cause["bytes"], 3 * 4 * (2 * 512 * 2048 + 2048 + 512))  # and what the teacher's forward saves

    def test_logits_are_named(self):
        cause = self.cause("loss = nn.functional.cross_entropy(head(out), torch.zeros(4096, dtype=torch.long, device='cuda'))")
        self.assertEqual(cause["cause"], "logits")
        self.assertIn("50,000 columns", cause["sentence"])

    def test_a_forward_that_reads_the_cards_memory_is_named(self):
        self.assertEqual(self.cause("net[0].register_forward_pre_hook(lambda *a: torch.cuda.mem_get_info() and None)")["cause"],
                         "memory_reader")


if __name__ == "__main__":
    SourceLines.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
