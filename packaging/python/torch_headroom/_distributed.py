# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.distributed with one process: a job of any size runs as a single rank.

Every process group is PyTorch's fake one (torch.testing._internal.distributed.fake_pg), whatever backend the program
requests; get_backend() still returns the requested one. core/device/kernels/collectives.cpp defines what
collectives write: the values as if all other ranks held what this rank holds. Objects that only another rank has are
fetched from a run of that rank (_distributed_companions.py).
"""

import ctypes
import datetime
import os
import sys

import torch.distributed as dist

from ._distributed_job import ADVICE
from ._library import HeadroomError, load

_PATIENCE = datetime.timedelta(seconds=5)  # timeout for a key that another rank would write into a store


def enter(job, command_line):
    """Makes this process one rank of `job`, if that is not None. Call it before the program starts, and after
    torch_headroom.simulate(). `command_line` holds the recorder's options and the script's arguments."""
    if not dist.is_available():
        return
    if job is None:
        dist.distributed_c10d.rendezvous = _alone
        return
    from . import _distributed_companions, _distributed_left_out, _simulate_cuda

    os.environ.update(job.environment())
    library = load()
    library.headroom_join_job.argtypes, library.headroom_join_job.restype = [ctypes.c_int64], None
    library.headroom_join_job(job.per_node)
    _patch_groups()
    _patch_rendezvous(job)
    _simulate_cuda.join_job(job)
    _distributed_companions.patch(job, command_line)
    _distributed_left_out.patch()


def _alone(url, rank=-1, world_size=-1, **options):
    from torch.distributed.rendezvous import rendezvous

    missing = [name for name in ("RANK", "WORLD_SIZE") if name not in os.environ]
    if url.startswith("env") and missing:
        raise HeadroomError(f"the script starts a process group, and {' and '.join(missing)} are not set: {ADVICE}")
    processes = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1))
    if processes > 1:
        raise HeadroomError(f"the script waits for the other {processes - 1} of {processes} processes: {ADVICE}")
    return rendezvous(url, rank, world_size, **options)


class _Store(dist.HashStore):
    """A store of a process whose other ranks do not run: what they would write never arrives."""

    def __init__(self, *_, **__):
        super().__init__()
        super().set_timeout(_PATIENCE)

    def set_timeout(self, _):
        pass


def _patch_rendezvous(job):
    def meet(url, rank=-1, world_size=-1, **_):
        if world_size not in (-1, job.processes):
            raise HeadroomError(f"the script starts a process group of {world_size} processes in a job of "
                                f"{job.processes}: --nproc-per-node times --nnodes has to be as many")
        yield _Store(), job.rank, job.processes

    for module in (dist, dist.distributed_c10d, sys.modules["torch.distributed.rendezvous"]):
        module.rendezvous = meet
        module.TCPStore = module.FileStore = _Store


def _devices(backend):
    """Returns the fake backend for each device type that a backend serves, in c10d's syntax."""
    if backend in (None, "", dist.Backend.UNDEFINED, dist.Backend.FAKE):
        return "cpu:fake,cuda:fake"
    served = dist.distributed_c10d.BackendConfig(dist.Backend(str(backend))).get_device_backend_map()
    return ",".join(f"{device}:fake" for device in served if device in ("cpu", "cuda"))


def _patch_groups():
    from torch._C._distributed_c10d import ProcessGroup
    from torch.testing._internal.distributed import fake_pg  # noqa: F401  (registers the backend)

    c10d = dist.distributed_c10d
    make = c10d._new_process_group_helper
    declare = load().headroom_process_group
    declare.argtypes, declare.restype = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_int64], None

    def make_fake(group_size, group_rank, global_ranks_in_group, backend, store, group_name, backend_options=None,
                  timeout=None, pg_tag=None, device_id=None, group_desc=None, **_):
        made = make(group_size, group_rank, global_ranks_in_group, c10d.Backend(_devices(backend)), store, group_name,
                    timeout=timeout, pg_tag=pg_tag, group_desc=group_desc)
        group, prefix_store = made
        if not isinstance(group, ProcessGroup):
            return made
        # No bound_device_id: c10d splits groups that are bound to a device, which the fake backend cannot do.
        group._set_default_backend(ProcessGroup.BackendType.CUSTOM)
        c10d._world.pg_map[group] = (backend, prefix_store)  # what get_backend() returns
        ranks = list(global_ranks_in_group) or list(range(group_size))
        declare(group.group_name.encode(), (ctypes.c_uint32 * len(ranks))(*ranks), len(ranks))
        return made

    c10d._new_process_group_helper = make_fake
