# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distributed job of a recorded script, in torchrun's terms. The script is one of the job's processes."""

import argparse
import os

from . import _distributed_launchers
from ._library import HeadroomError

# Environment variables that torchrun sets.
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
ADVICE = "record one process of the job with --nproc-per-node N (and --nnodes N), as torchrun would start it"


class Job:
    """The number of processes of a job, and this process's rank."""

    def __init__(self, per_node, nodes=1, rank=0):
        self.processes, self.per_node, self.rank = per_node * nodes, per_node, rank
        if not 0 <= rank < self.processes:
            raise HeadroomError(f"there is no rank {rank} in a job of {self.processes}: expected 0 to "
                                f"{self.processes - 1}")

    def environment(self):
        """Returns torchrun's environment variables. Each process sees only its own GPU, so LOCAL_RANK is 0."""
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
        raise HeadroomError(f"torchrun --{option} {text}: expected how many, as this machine is not the one that will "
                            "run it")
    return int(number)


def take_launcher(options):
    """Converts `torchrun [its options] script [arguments]`, or the command of another launcher, to the recorder's own
    options and script."""
    if not options.module and options.script and _distributed_launchers.is_launcher(options.script, options.arguments):
        launch = _distributed_launchers.read(options.script, options.arguments)
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
            raise HeadroomError("--nnodes and --rank say which process of a job is recorded: --nproc-per-node is "
                                "missing")
        return None
    return Job(options.nproc_per_node, options.nnodes, options.rank)
