# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the words of `accelerate launch` and `deepspeed` in front of a script. The launchers themselves parse them, and
their configuration files, in another process: they import torch, which the recorder may import only after simulate().
"""

import json
import os
import subprocess
import sys

from ._library import HeadroomError


class Launch:
    """The processes that a launcher would start. `per_node` is None if the script runs alone."""

    def __init__(self, script, arguments, module, environment, per_node=None, nodes=1, node_rank=0):
        self.script, self.arguments, self.module, self.environment = script, arguments, module, environment
        self.per_node, self.nodes, self.node_rank = per_node, nodes, node_rank


def is_launcher(script, arguments):
    return script == "deepspeed" or (script == "accelerate" and arguments[:1] == ["launch"])


def read(launcher, words):
    """Returns the Launch that `launcher` makes of its words."""
    command = [sys.executable, "-m", __name__, launcher, *words]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode:
        lines = [line for line in result.stderr.strip().splitlines() if line.strip()]
        raise HeadroomError(f"{launcher}: {lines[-1] if lines else 'it ended without a word'}")
    return Launch(**json.loads(result.stdout.strip().splitlines()[-1]))


def _only_known(count, option):
    if count is None or int(count) < 1:
        raise HeadroomError(f"say {option}: the GPUs of the machine that will run the job cannot be counted here")
    return int(count)


def _accelerate(words):
    """Returns what accelerate (accelerate/commands/launch.py) would pass to torchrun, or start as one process."""
    import accelerate.commands.launch as launch
    import torch
    import torch.distributed.run

    before = dict(os.environ)
    told = []

    def tell(args, environment, **more):
        if getattr(args, "no_python", False):
            raise HeadroomError("--no_python starts another program: name the training script")
        changed = {name: word for name, word in environment.items() if before.get(name) != word}
        changed.pop("PYTHONPATH", None)
        told.append(Launch(args.training_script, list(args.training_script_args), bool(args.module), changed, **more))

    def tell_job(args):
        nodes = int(args.nnodes.rpartition(":")[2])
        tell(args, os.environ, per_node=int(args.nproc_per_node), nodes=nodes, node_rank=int(args.node_rank))

    def tell_alone(args):
        tell(args, launch.prepare_simple_launcher_cmd_env(args)[1])

    args = launch.launch_command_parser().parse_args(words[1:])
    # accelerate counts the GPUs of this machine, but the job will run on another one.
    torch.cuda.is_available = launch.is_bf16_available = lambda *_: True
    torch.cuda.device_count = lambda: _only_known(args.num_processes, "--num_processes")
    launch.check_cuda_p2p_ib_support = lambda: True
    torch.distributed.run.run = tell_job
    launch.simple_launcher = tell_alone
    # The other values would connect to the job's machines.
    args.deepspeed_multinode_launcher = args.deepspeed_multinode_launcher or "standard"
    launch.launch_command(args)
    return told[0]


def _deepspeed(words):
    """Returns what deepspeed would start on each machine (deepspeed/launcher/runner.py and launch.py)."""
    from deepspeed.launcher import runner

    args = runner.parse_args(words)
    if args.no_python or args.autotuning:
        raise HeadroomError("--no_python and --autotuning start other programs: name the training script")
    arguments = [*([] if args.no_local_rank else ["--local_rank=0"]), *args.user_args]
    per_node = _only_known(args.num_gpus, "--num_gpus")
    nodes, node_rank = max(args.num_nodes, 1), max(args.node_rank, 0)
    return Launch(args.user_script, arguments, args.module, {}, per_node, nodes, node_rank)


def _main(launcher, *words):
    try:
        launch = {"accelerate": _accelerate, "deepspeed": _deepspeed}[launcher](list(words))
    except (HeadroomError, ImportError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(vars(launch)))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
