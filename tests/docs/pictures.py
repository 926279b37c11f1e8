# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures of the manual, made from demo models without a display.

    pictures.py FOLDER_OF_THE_PROGRAMS            makes the pictures again, in resources/manual/pictures
    pictures.py --check FOLDER_OF_THE_PROGRAMS    makes the pictures in another folder and compares the numbers

A picture carries the numbers that the commands print for what the picture shows, as text inside of the PNG file. The
check fails if a picture of the manual has other numbers or another size than a new one: make the pictures again then.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import small_png

PICTURES = pathlib.Path(__file__).resolve().parents[2] / "resources" / "manual" / "pictures"
KEYWORD = b"Headroom figures"
BUDGET = "20GiB"
WINDOW = ["--size", "1280x800", "--theme", "light", "--calibration", "none"]
OF_PLAN = ["status", "peak_bytes", "baseline_peak_bytes", "recompute_ms", "step_ms", "decisions"]
TOLERANCE = 1e-4  # of times, relative


class Programs:
    def __init__(self, programs, folder):
        self._headroom, self._folder = str(pathlib.Path(programs).resolve() / "torch-headroom"), folder

    def run(self, *words):
        done = subprocess.run([self._headroom, *words], cwd=self._folder, capture_output=True, text=True, check=False,
                              env=os.environ | {"QT_QPA_PLATFORM": "offscreen"})
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout

    def json(self, *words):
        return json.loads(self.run(*words, "--json"))


def made(programs, folder):
    """Makes all pictures in a folder. Returns the figures of each, by the file's name."""
    headroom = Programs(programs, folder)
    headroom.run("record", "demo:transformer", "--set", "n_layers=12", "--set", "vocab_size=50257", "--batch", "32",
                 "--gpu", "rtx-4090-24gb", "-o", "step.hrs")
    demo = ["record", "demo:resnet", "--batch", "8", "--optimizer", "sgd"]
    headroom.run(*demo, "--device", "cpu", "-o", "measured.hrs")
    headroom.run(*demo, "-o", "predicted.hrs")
    plan = headroom.json("plan", "step.hrs", "--budget", BUDGET, "--calibration", "none", "-o", "policy.json")
    by_op = [point for point in headroom.json("ops-frontier", "step.hrs", "--calibration", "none")["points"]
             if point["peak_bytes"] <= plan["budget_bytes"]]
    frontier = headroom.json("frontier", "step.hrs", "--calibration", "none")
    peaks = {name: headroom.json("info", f"{name}.hrs", "--calibration", "none")["peak_bytes"]
             for name in ("measured", "predicted")}

    headroom.run("screenshot", "step.hrs", "window.png", "--budget", BUDGET, *WINDOW)
    headroom.run("screenshot", "step.hrs", "ops.png", "--budget", BUDGET, "--ops", *WINDOW)
    headroom.run("screenshot", "predicted.hrs", "measured.png", "--measured", "measured.hrs", *WINDOW)
    headroom.run("export", "step.hrs", "timeline.png", "--timeline", "--policy", "policy.json", "--calibration", "none")
    headroom.run("export", "step.hrs", "frontier.png", "--frontier", "--calibration", "none")

    of_plan = {key: plan[key] for key in OF_PLAN}
    return {
        "window.png": of_plan,
        "ops.png": min(by_op, key=lambda point: point["recompute_ms"]),
        "timeline.png": of_plan,
        "frontier.png": {"points": frontier["points"][:1] + frontier["points"][-1:]},
        "measured.png": peaks,
    }


def differences(old, new, path=""):
    """The paths at which two documents differ; times within TOLERANCE are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [found for key in sorted(old.keys() | new.keys())
                for found in differences(old.get(key), new.get(key), f"{path}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [found for i, pair in enumerate(zip(old, new)) for found in differences(*pair, f"{path}/{i}")]
    if isinstance(old, float) and isinstance(new, (int, float)):
        return [] if abs(old - new) <= TOLERANCE * max(abs(old), abs(new)) else [f"{path}: {old}, now {new}"]
    return [] if old == new else [f"{path}: {old}, now {new}"]


def problems(name, picture, figures):
    """What a picture of the manual says differently from a new picture with these figures."""
    path = PICTURES / name
    if not path.is_file():
        return [f"{name}: expected a picture"]
    data = path.read_bytes()
    text = small_png.text(data, KEYWORD)
    if text is None:
        return [f"{name}: carries no figures"]
    found = [f"{name}{difference}" for difference in differences(json.loads(text), figures)]
    if small_png.size(data) != small_png.size(picture):
        found.append(f"{name}: {small_png.size(data)} pixels, now {small_png.size(picture)}")
    return found


def main(arguments):
    check = arguments[:1] == ["--check"]
    (programs,) = arguments[check:]
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        figures = made(programs, folder)
        if check:
            found = [problem for name in figures
                     for problem in problems(name, (folder / name).read_bytes(), figures[name])]
            found += [f"{path.name}: no command makes this picture" for path in PICTURES.glob("*.png")
                      if path.name not in figures]
            print("\n".join(found + ["make the pictures again: tests/docs/pictures.py"] if found else ["as the manual's"]))
            return 1 if found else 0
        for name, of_picture in figures.items():
            text = json.dumps(of_picture).encode()
            (PICTURES / name).write_bytes(small_png.small((folder / name).read_bytes(), {KEYWORD: text}))
            print(f"{name}: {(PICTURES / name).stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
