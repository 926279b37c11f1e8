# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supported versions of PyTorch are one list, packaging/dependencies/torch-versions.txt. What cannot read the list
has the same versions."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPENDENCIES = ROOT / "packaging" / "dependencies"
sys.path.insert(0, str(DEPENDENCIES))

from find_torch import minor, supported  # noqa: E402

VERSIONS = supported()
RANGE = f"{VERSIONS['oldest']} to {VERSIONS['newest']}"
SOURCES = ("CMakeLists.txt", "*.cmake", "*.sh", "*.h", "*.cpp", "*.in")


def text(*parts):
    return ROOT.joinpath(*parts).read_text()


class TorchVersions(unittest.TestCase):
    def test_the_installed_version_is_supported(self):
        self.assertLessEqual(minor(VERSIONS["oldest"]), minor(VERSIONS["installed"]))
        self.assertLessEqual(minor(VERSIONS["installed"]), minor(VERSIONS["newest"]))

    def test_lists_of_packages_have_the_installed_version(self):
        for name in ("torch-full.txt", "torch-recorder.txt", "torch-tests.txt"):
            self.assertIn(f"\ntorch=={VERSIONS['installed']}\n", text("packaging/dependencies", name), name)

    def test_the_python_package_needs_what_is_supported(self):
        major, newest = minor(VERSIONS["newest"])
        self.assertIn(f'"torch>={VERSIONS["oldest"]},<{major}.{newest + 1}"', text("packaging/python/pyproject.toml"))

    def test_pages_name_the_same_versions(self):
        for page in ("README.md", "resources/manual/install.md", "resources/manual/limits.md"):
            named = set(re.findall(r"\b(2\.\d+ to 2\.\d+)\b", text(page)))
            self.assertEqual(named, {RANGE}, page)
        self.assertIn(f"install torch {VERSIONS['installed']} into", text("resources/manual/install.md"))
        self.assertIn(f"pip install torch=={VERSIONS['installed']}", text("resources/manual/install.md"))

    def test_no_source_has_a_range_of_its_own(self):
        own = re.compile(r"2\.\d+ to 2\.\d+|2\\?\.1\[\d-\d\]|torch_(?:oldest|newest) 2\.")
        for folder in ("app", "core", "packaging", "views"):
            for pattern in SOURCES:
                for path in (ROOT / folder).rglob(pattern):
                    self.assertIsNone(own.search(path.read_text(errors="replace")), path)

    def test_a_version_is_compared_by_its_numbers(self):
        self.assertLess(minor("2.9.1"), minor("2.11"))
        self.assertEqual(minor("2.15.0"), minor("2.15"))


if __name__ == "__main__":
    unittest.main()
