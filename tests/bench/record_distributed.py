# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records one rank of each step of tests/data/published/training_distributed.json.

record_distributed.py FOLDER [PREFIX ...]: a step file for each row whose id begins so (default: all), by train_published.py
beside it. tests/bench/bench_distributed.cpp reads the folder.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROWS = HERE.parent / "data" / "published" / "training_distributed.json"
CARDS = {"h100": "h100-80gb", "a100_40gb": "a100-40gb", "a100": "a100-80gb", "h200": "h200-141gb"}


def card(gpu):
    name = gpu.lower()
    return CARDS["a100_40gb"] if name == "a100_40gb" else next(spec for key, spec in CARDS.items() if key in name)


def main(folder, prefixes):
    for row in json.loads(ROWS.read_text()):
        output = pathlib.Path(folder) / f"{row['id']}.hrs"
        if output.exists() or not row["id"].startswith(tuple(prefixes) or ""):
            continue
        nodes = max(1, row["gpus"] // 8)
        command = [sys.executable, "-m", "torch_headroom.record", "--gpu", card(row["gpu"]), "--unlimited",
                   "--nproc-per-node", str(row["gpus"] // nodes), "--nnodes", str(nodes), "-o", str(output),
                   str(HERE / "train_published.py")]
        variables = {"PUBLISHED_ROW": json.dumps(row), "PYTORCH_CUDA_ALLOC_CONF": row["config"].get("allocator", "")}
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
        print(row["id"], "recorded" if done.returncode == 0 else done.stderr.strip().splitlines()[-1:], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
