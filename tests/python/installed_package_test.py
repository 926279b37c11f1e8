# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package as pip installs it: what CMake installs into it beside its Python files, used from another folder by a user
who has nothing else of Headroom.

The arguments are CMake and the build folder.
"""

import ast
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import support

support.need("torch")

_CMAKE, _BUILD = sys.argv.pop(1), sys.argv.pop(1)
_SOURCES = pathlib.Path(__file__).parents[2] / "packaging" / "python" / "torch_headroom"

_SCRIPT = """
    import torch
    model = torch.nn.Linear(1000, 1000).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.randn(64, 1000, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""

_PROGRAM = """
    import torch_headroom
    torch_headroom.simulate("t4-16gb")
    import torch
    model = torch.nn.Linear(1000, 1000, device="cuda")
    with torch_headroom.record("mine.hrs") as recording:
        model(torch.randn(64, 1000, device="cuda")).sum().backward()
    print(torch_headroom.__file__)
    print(recording.summary["peak_bytes"])
    torch_headroom.export(torch.nn.Linear(8, 8), (torch.zeros(2, 8),), path="model.pt2")
"""


def _block(count):
    return -(-count // 512) * 512


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.packages = cls.folder / "site-packages"
        cls.home = cls.folder / "home"
        cls.home.mkdir()
        command = [_CMAKE, "--install", _BUILD, "--component", "python", "--prefix", cls.packages]
        subprocess.run(command, check=True, capture_output=True)
        cls.library = sorted(path.name for path in (cls.packages / "torch_headroom").iterdir())
        shutil.copytree(_SOURCES, cls.packages / "torch_headroom", ignore=shutil.ignore_patterns("__pycache__"),
                        dirs_exist_ok=True)

    def run_python(self, *arguments):
        environment = {"PATH": os.defpath, "HOME": str(self.home), "PYTHONPATH": str(self.packages),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        result = subprocess.run([sys.executable, *arguments], cwd=self.home, env=environment, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def written(self, text):
        path = self.home / "program.py"
        path.write_text(textwrap.dedent(text))
        return path

    def test_cmake_installs_the_libraries_and_the_version_they_were_built_for(self):
        of_cuda = ["libheadroom_cuda.so"] if (pathlib.Path(_BUILD) / "lib" / "libheadroom_cuda.so").exists() else []
        self.assertEqual(self.library, of_cuda + ["libheadroom_python.so", "libheadroom_python.torch-version"])

    def test_a_script_is_recorded(self):
        script = self.written(_SCRIPT)
        output = self.run_python("-m", "torch_headroom.record", "--gpu", "t4-16gb", "-o", "step.hrs", script)
        parameters = _block(4 * 1000 * 1000) + _block(4 * 1000)
        peak = 2 * parameters + _block(4 * 64 * 1000) + 2 * _block(4)  # gradients, the batch, the loss and its gradient
        self.assertIn("program.py on Tesla T4 (simulated), step 2", output)
        self.assertIn(f"({peak:,} bytes)", output)
        self.assertTrue((self.home / "step.hrs").is_file())

    def test_a_program_records_itself_and_exports(self):
        package, peak = self.run_python(self.written(_PROGRAM)).split()
        self.assertEqual(pathlib.Path(package).parent, self.packages / "torch_headroom")
        self.assertGreater(int(peak), 2 * 4 * 1000 * 1000)
        self.assertTrue((self.home / "model.pt2").is_file())

    def test_the_metadata_names_the_version_of_the_library(self):
        version = self.run_python("-m", "torch_headroom.record", "--version").split()[-1]
        settings = (_SOURCES.parent / "pyproject.toml").read_text().splitlines()
        (line,) = [line for line in settings if line.startswith("version = ")]
        self.assertEqual(ast.literal_eval(line.removeprefix("version = ")), version)


if __name__ == "__main__":
    unittest.main()
