# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What torch_headroom.simulate() says when it comes too late or is asked for what is not there; each program is a process."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

support.need("torch")


def run(program, **environment):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | environment)


class Simulate(unittest.TestCase):
    def test_after_torch(self):
        result = run("import torch, torch_headroom; torch_headroom.simulate()")
        self.assertEqual(result.returncode, 1)
        self.assertIn("torch was imported before torch_headroom.simulate(): call simulate() in the first lines",
                      result.stderr)

    def test_unknown_card(self):
        result = run("import torch_headroom; torch_headroom.simulate('voodoo2')")
        self.assertEqual(result.returncode, 1)
        self.assertIn("unknown GPU 'voodoo2': expected h100-80gb, ", result.stderr)

    def test_twice(self):
        result = run("import torch_headroom; torch_headroom.simulate('t4-16gb'); torch_headroom.simulate('t4-16gb'); import torch;"
                     "print(torch.cuda.get_device_name())")
        self.assertEqual((result.returncode, result.stdout), (0, "Tesla T4\n"), result.stderr)
        result = run("import torch_headroom; torch_headroom.simulate('t4-16gb'); torch_headroom.simulate('l4-24gb')")
        self.assertIn("this process simulates t4-16gb already", result.stderr)

    def test_nothing_is_written_to_the_terminal(self):
        result = run("import torch_headroom; torch_headroom.simulate(); import torch; torch.ones(2, device='cuda').sum().item()")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_a_cache_that_cannot_be_written(self):
        step = ("import torch_headroom; torch_headroom.simulate(); import torch; net = torch.nn.Linear(2, 2).cuda();"
                "run = torch.compile(net) if {} else net;"
                "run(torch.ones(2, 2, device='cuda')).sum().backward(); torch.optim.AdamW(net.parameters()).step()")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "file"
            file.touch()
            for cache in {"XDG_CACHE_HOME": str(file)}, {"XDG_CACHE_HOME": "", "HOME": str(file)}:
                for compiles in False, True:
                    with self.subTest(cache=cache, compiles=compiles):
                        result = run(step.format(compiles), TMPDIR=folder, **cache)
                        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
                        self.assertNotIn(str(file), result.stderr)


if __name__ == "__main__":
    unittest.main()
