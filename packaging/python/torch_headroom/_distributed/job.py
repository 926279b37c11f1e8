# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distributed job of a recorded script, in torchrun's terms. The script is a process of the job. The words of
`accelerate launch` and `deepspeed` in front of a script, and configuration files, are parsed by the launchers
themselves, in another process: the launchers import torch, which the recorder may import only after simulate()."""

import argparse
import json
import os
import subprocess
import sys

from .._library import HeadroomError


# Environment variables that torchrun sets.
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
ADVICE = "record a process of the job with --nproc-per-node N (and --nnodes N), as for torchrun"


class Job:
    """The number of processes of a job, and the rank of this process."""

    def __init__(self, per_node, nodes=1, rank=0):
        self.processes, self.per_node, self.rank = per_node * nodes, per_node, rank
        if not 0 <= rank < self.processes:
            raise HeadroomError(f"there is no rank {rank} in a job of {self.processes}: expected 0 to "
                                f"{self.processes - 1}")

    def environment(self):
        """Returns torchrun's environment variables. Each process sees only a single GPU, so LOCAL_RANK is 0."""
        words = {
            "WORLD_SIZE": self.processes, "RANK": self.rank, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": self.per_node,
            "GROUP_RANK": self.rank // self.per_node, "GROUP_WORLD_SIZE": self.processes // self.per_node,
            "ROLE_RANK": self.rank, "ROLE_WORLD_SIZE": self.processes, "ROLE_NAME": "default",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": "headroom",
            "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0, "TORCHELASTIC_USE_AGENT_STORE": False,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", 1),
        }
        return {name: str(word) for name, word in words.items()}

    def options(self):
        """Returns the recorder's options for this job."""
        nodes = self.processes // self.per_node
        words = ["--nproc-per-node", str(self.per_node)] + (["--nnodes", str(nodes)] if nodes > 1 else [])
        return words + (["--rank", str(self.rank)] if self.rank else [])

    def described(self):
        """Returns the job as step files store it."""
        return {"world_size": self.processes, "ranks_per_node": self.per_node, "rank": self.rank}


class _Torchrun(argparse.ArgumentParser):
    def error(self, message):
        raise HeadroomError(f"torchrun: {message}")


def _torchrun():
    """Returns a parser of torchrun's options (torch/distributed/run.py). Most configure the rendezvous, which is not
    used here."""
    options = _Torchrun(add_help=False, allow_abbrev=False)

    def add(name, **more):
        options.add_argument(f"--{name}", *{f"--{name.replace('-', '_')}"} - {f"--{name}"}, **more)

    add("nproc-per-node", default="1")
    add("nnodes", default="1")
    add("node-rank", default="0")
    for name in ("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts", "monitor-interval",
                 "start-method", "role", "log-dir", "redirects", "tee", "local-ranks-filter", "master-addr",
                 "master-port", "local-addr", "logs-specs", "numa-binding", "event-log-handler", "signals-to-handle",
                 "duplicate-stdout-filters", "duplicate-stderr-filters", "virtual-local-rank"):
        add(name, **({"action": "store_true"} if name == "virtual-local-rank" else {}))
    options.add_argument("-r", dest="redirects")
    options.add_argument("-t", dest="tee")
    for name in ("standalone", "no-python", "run-path"):
        add(name, action="store_true")
    options.add_argument("-m", "--module", action="store_true")
    options.add_argument("script", nargs="?")
    options.add_argument("arguments", nargs=argparse.REMAINDER)
    return options


def _whole(text, option):
    # torchrun accepts MIN:MAX nodes, and "gpu" or "auto" processes, which depend on the machine.
    number = text.rpartition(":")[2]
    if not number.isdigit() or int(number) < 1:
        raise HeadroomError(f"torchrun --{option} {text}: expected a number, as another machine will run the job")
    return int(number)


def take_launcher(options):
    """Converts `torchrun [its options] script [arguments]`, or the command of another launcher, to the recorder's own
    options and script."""
    if not options.module and options.script and is_launcher(options.script, options.arguments):
        launch = read(options.script, options.arguments)
        words = (os.path.abspath(word) if word == launch.script and not launch.module else word
                 for word in options.arguments)
        options.launched = [options.script, *words]
        os.environ.update(launch.environment)
        options.module, options.script, options.arguments = launch.module, launch.script, launch.arguments
        _take_job(options, launch.per_node, launch.nodes, launch.node_rank)
        return
    known = ("torch.distributed.run", "torch.distributed.launch") if options.module else ("torchrun",)
    if options.script not in known:
        return
    words = _torchrun().parse_args(options.arguments)
    if words.no_python or words.run_path:
        raise HeadroomError("torchrun --no-python and --run-path start another program: name the training script")
    node_rank = _whole(str(int(words.node_rank) + 1), "node-rank") - 1
    _take_job(options, _whole(words.nproc_per_node, "nproc-per-node"), _whole(words.nnodes, "nnodes"), node_rank)
    options.module, options.script, options.arguments = words.module, words.script, words.arguments


def _take_job(options, per_node, nodes, node_rank):
    """Sets the options of the job. Options that the user gave to the recorder itself take precedence."""
    options.nproc_per_node = options.nproc_per_node or per_node
    if options.nnodes == 1:
        options.nnodes = nodes
    options.rank = options.rank or node_rank * (options.nproc_per_node or 1)


def job_of(options):
    """Returns the job that the recorder's options describe; None: the script runs alone."""
    if options.nproc_per_node is None:
        if options.nnodes != 1 or options.rank:
            raise HeadroomError("--nnodes and --rank choose a process of a job: --nproc-per-node is missing")
        return None
    return Job(options.nproc_per_node, options.nnodes, options.rank)


class Launch:
    """The processes that a launcher would start. `per_node` is None if the script runs alone."""

    def __init__(self, script, arguments, module, environment, per_node=None, nodes=1, node_rank=0):
        self.script, self.arguments, self.module, self.environment = script, arguments, module, environment
        self.per_node, self.nodes, self.node_rank = per_node, nodes, node_rank


def is_launcher(script, arguments):
    return script == "deepspeed" or (script == "accelerate" and arguments[:1] == ["launch"])


def read(launcher, words):
    """Returns the Launch that `launcher` makes of the words."""
    command = [sys.executable, "-m", __name__, launcher, *words]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode:
        lines = [line for line in result.stderr.strip().splitlines() if line.strip()]
        raise HeadroomError(f"{launcher}: {lines[-1] if lines else 'ended without a message'}")
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
    # accelerate counts the GPUs of this machine, but the job will run on another machine.
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
