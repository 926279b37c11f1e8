# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unmodified scripts under `python -m torch_headroom.run`, each on a simulated card that is 20 % smaller than what it
reserves without a plan, for five steps, or as many as the variable STEPS says. Prints a table: the predicted reserved
peak without workspaces, which the simulated card has none of, beside its max_memory_reserved(), or why the script is
refused. The prediction is of all steps until the layout of segments repeats, at most 24.

    run_stacks.py 'VARIABLE=VALUE… SCRIPT ARGUMENTS'…
    run_stacks.py --measured OUTPUT [options of torch_headroom.run] SCRIPT     what it starts itself
"""

import atexit
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest.mock

GPU, SHARE, PATIENCE = "a100-80gb", 0.8, 600


def steps():
    return int(os.environ.get("STEPS", 5))


def measured(output, arguments):
    """Runs the command, and ends the script after its steps. Writes what the card has reserved."""
    from torch_headroom import run

    found = {"steps": 0, "reserved": 0}
    simulate = run._simulate

    def follow(gpu):
        simulate(gpu)
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        last = {}

        def stepped(optimizer, *_):
            last[id(optimizer)] = last.get(id(optimizer), 0) + 1
            found["steps"] = max(last.values())
            if found["steps"] > steps():
                sys.exit()

        register_optimizer_step_post_hook(stepped)
        atexit.register(lambda: found.update(reserved=torch.cuda.max_memory_reserved()))

    run._simulate = follow
    atexit.register(lambda: pathlib.Path(output).write_text(json.dumps(found)))
    return run.main(arguments)


def started(output, *arguments):
    """Returns the exit code, stdout and the last sentence of the command."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--measured", output, "--gpu", GPU, *arguments],
                          capture_output=True, text=True, timeout=PATIENCE, cwd=output.parent)
    sentences = [line for line in done.stderr.splitlines() if line.startswith("torch_headroom.run: ")]
    lines = sentences or done.stderr.strip().splitlines() or [""]
    return done.returncode, done.stdout, lines[-1].removeprefix("torch_headroom.run: "), done.stderr


def divided(command):
    """Returns the variables before a command, and its words."""
    words = shlex.split(command)
    count = next(i for i, word in enumerate(words) if not re.fullmatch(r"\w+=.*", word))
    return dict(word.split("=", 1) for word in words[:count]), words[count:]


def row(command, folder):
    """Returns the cells of a script with its arguments."""
    variables, (script, *words) = divided(command)
    name = shlex.join([*(f"{key}={value}" for key, value in variables.items()), pathlib.Path(script).name, *words])
    os.environ.update(variables)
    script = pathlib.Path(script).resolve()
    output = folder / "measured.json"
    try:
        code, printed, sentence, _ = started(output, "--dry-run", "--json", script, *words)
        if code:
            return [name, "", "", "", f"refused: {sentence}"]
        peak = json.loads(printed[printed.index("{\n"):])["card"]["reserved_peak_bytes"]
        budget = int(peak * SHARE)
        code, printed, sentence, _ = started(output, "--budget", str(budget), "--dry-run", "--json", script, *words)
        if code:
            return [name, f"{budget:,}", "", "", f"refused: {sentence}"]
        card = json.loads(printed[printed.index("{\n"):])["card"]
        code, _, sentence, errors = started(output, "--budget", str(budget), script, *words)
    except subprocess.TimeoutExpired:
        return [name, "", "", "", f"took more than {PATIENCE} s"]
    found = json.loads(output.read_text())
    what = "runs" if code == 0 else "out of memory" if "OutOfMemoryError" in errors else f"exit code {code}: {sentence}"
    ran = f"{min(found['steps'], steps())} steps, {what}" + (f" ({card['settings']})" if card["settings"] else "")
    predicted = card["reserved_peak_without_workspaces_bytes"]
    return [name, f"{budget:,}", f"{predicted:,}", f"{found['reserved']:,}", ran]


def main(commands):
    print("| script | card, bytes | predicted | max_memory_reserved() | |\n| --- | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for command in commands:
            with unittest.mock.patch.dict(os.environ):
                print("| " + " | ".join(row(command, pathlib.Path(folder))) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measured"]:
        sys.exit(measured(sys.argv[2], sys.argv[3:]))
    main(sys.argv[1:])
