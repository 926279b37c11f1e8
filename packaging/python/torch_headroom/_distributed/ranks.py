# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.distributed with one process: a job of any size runs as a single rank.

Every process group is PyTorch's fake group (torch.testing._internal.distributed.fake_pg), whatever backend the program
requests; get_backend() still returns the requested backend. core/device/kernels/collectives.cpp defines what
collectives write: the values as if all other ranks held the values of this rank.

Some objects only another rank has, such as the shapes that a pipeline stage gets from the stage before, or a few
numbers that rank 0 broadcasts. The rank that sends such an object is started as a mock rank at the first request: the
same script in another process, with a simulated GPU of its own. The ranks of a job share a folder with a file per
object, written by the sender.

Distributed checkpoints are left out with a remark, since each rank would write a part. Functions that map the memory of
other ranks' GPUs are refused.
"""

import concurrent.futures
import ctypes
import datetime
import fcntl
import functools
import itertools
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

from .. import _remarks as remarks
from .._library import HeadroomError, load
from .._torch import change_after_import
from .job import ADVICE, Job

_PATIENCE = datetime.timedelta(seconds=5)  # timeout for a key that another rank would write into a store


def enter(job, command_line):
    """Makes this process one rank of `job`. Without a job, the process becomes the only rank of a job when the program
    starts a process group. Call before the program starts, and after torch_headroom.simulate(). `command_line` holds
    the recorder's options and the script's arguments."""
    if not dist.is_available():
        return
    if job is None:
        dist.distributed_c10d.rendezvous = functools.partial(_rendezvous_alone, command_line)
    else:
        _join(job, command_line)


def _join(job, command_line):
    from .._simulate import cuda

    os.environ.update(job.environment())
    library = load()
    library.headroom_join_job.argtypes, library.headroom_join_job.restype = [ctypes.c_int64], None
    library.headroom_join_job(job.per_node)
    _patch_groups()
    _patch_rendezvous(job)
    cuda.join_job(job)
    _patch_objects(job, command_line)
    _patch_unsupported()


def _rendezvous_alone(command_line, url, rank=-1, world_size=-1, **options):
    given = {"RANK": rank, "WORLD_SIZE": world_size}
    missing = [name for name, number in given.items() if number < 0 and name not in os.environ]
    if url.startswith("env") and missing:
        raise HeadroomError(f"the script starts a process group, and {' and '.join(missing)} are not set: {ADVICE}")
    processes = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1))
    if processes > 1:
        raise HeadroomError(f"the script waits for the other {processes - 1} of {processes} processes: {ADVICE}")
    _join(Job(1), command_line)
    return dist.distributed_c10d.rendezvous(url, rank, world_size, **options)


class _Store(dist.HashStore):
    """A store of a process without the other ranks: keys that other ranks would write never arrive."""

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


_FOLDER = "TORCH_HEADROOM_JOB"  # set for mock ranks: the folder of the job
_POLL_SECONDS = 0.02  # between two searches for a file
_MOST_BYTES = 1024  # of a fetched tensor of integers: sizes and the like, no data
_PR_SET_PDEATHSIG = 1


class _ObjectExchange:
    """The folder in which the ranks of a job exchange objects. The recorded rank makes the folder, and starts mock
    ranks."""

    def __init__(self, job, command_line):
        self._job = job
        self._command_line = command_line
        self._job_folder = os.environ.get(_FOLDER)  # set in a mock rank
        self._folder = None  # made at first use
        self._numbers = {}  # key -> counter of messages

    def _open_folder(self):
        if self._folder is None:
            if self._job_folder is None:
                self._kept = tempfile.TemporaryDirectory(prefix="torch-headroom-job-")
            self._folder = pathlib.Path(self._job_folder or self._kept.name)
            if self._job_folder is None:
                self._lock(self._job.rank)
        return self._folder

    def is_mock_rank(self):
        return self._job_folder is not None

    def next(self, key):
        return f"{key}-{next(self._numbers.setdefault(key, itertools.count()))}"

    def send(self, name, objects):
        path = self._open_folder() / name
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(objects))
        part.rename(path)

    def receive(self, name, source):
        path = self._open_folder() / name
        self._start(source)
        while not path.exists():
            if self._has_ended(source) and not path.exists():
                raise HeadroomError(f"rank {source}, started to send to rank {self._job.rank}, ended too early: "
                                    f"{self._last_line(source)}")
            time.sleep(_POLL_SECONDS)
        return pickle.loads(path.read_bytes())

    def _lock(self, rank):
        """Takes the lock of a rank and returns the descriptor. The rank holds the lock as long as the rank runs. None
        if the rank was started before."""
        try:
            descriptor = os.open(self._open_folder() / f"rank-{rank}", os.O_CREAT | os.O_EXCL | os.O_RDWR)
        except FileExistsError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def _start(self, rank):
        descriptor = self._lock(rank)
        if descriptor is None:
            return
        options, script = self._command_line
        words = [*options, "--rank", str(rank), "-o", str(self._open_folder() / f"rank-{rank}.hrs"), *script]
        with open(self._open_folder() / f"rank-{rank}.text", "wb") as text:
            subprocess.Popen([sys.executable, "-m", "torch_headroom.record", *words], stdin=subprocess.DEVNULL,
                             stdout=text, stderr=text, pass_fds=(descriptor,),
                             env={**os.environ, _FOLDER: str(self._open_folder())}, preexec_fn=_end_with_parent)
        os.close(descriptor)

    def _has_ended(self, rank):
        with open(self._open_folder() / f"rank-{rank}") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def _last_line(self, rank):
        lines = (self._open_folder() / f"rank-{rank}.text").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"


def _end_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _patch_objects(job, command_line):
    exchange = _ObjectExchange(job, command_line)
    c10d = dist.distributed_c10d

    def other(rank, group_rank, group):
        return dist.get_global_rank(group or dist.group.WORLD, group_rank) if rank is None else rank

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
        exchange.send(exchange.next(f"{job.rank}-to-{other(dst, group_dst, group)}"), list(object_list))

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
        if src is None and group_src is None:
            raise HeadroomError("recv_object_list() takes from any rank: name the rank, as only that rank is started")
        source = other(src, group_src, group)
        object_list[:] = exchange.receive(exchange.next(f"{source}-to-{job.rank}"), source)
        return source

    broadcast_objects = dist.broadcast_object_list

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
        if dist.get_rank(group) < 0:
            return
        source = other(src, group_src if src is not None or group_src is not None else 0, group)
        name = exchange.next(f"{(group or dist.group.WORLD).group_name}-from-{source}")
        if source == job.rank:
            exchange.send(name, list(object_list))
        else:
            object_list[:] = exchange.receive(name, source)
        nonlocal tells_objects
        tells_objects = True  # broadcast_objects() calls broadcast(), with tensors that this rank has now
        broadcast_objects(object_list, group=group, device=device, group_src=dist.get_rank(group))
        tells_objects = False

    broadcast_tensor = dist.broadcast
    tells_objects = False

    def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
        work = broadcast_tensor(tensor, src, group, async_op, group_src)
        if tells_objects or tensor.is_floating_point() or tensor.nbytes > _MOST_BYTES or dist.get_rank(group) < 0:
            return work
        source = other(src, group_src, group)
        name = exchange.next(f"{(group or dist.group.WORLD).group_name}-numbers-from-{source}")
        if source != job.rank:
            tensor.copy_(torch.tensor(exchange.receive(name, source), dtype=tensor.dtype).view_as(tensor))
        elif exchange.is_mock_rank():
            exchange.send(name, tensor.tolist())
        return work

    for function in (send_object_list, recv_object_list, broadcast_object_list, broadcast):
        for module in (dist, c10d):
            setattr(module, function.__name__, function)


_CHECKPOINT = "torch.distributed.checkpoint"
_FSDP1 = "torch.distributed.fsdp.fully_sharded_data_parallel"


def _patch_unsupported():
    from torch.distributed import _symmetric_memory

    change_after_import(_CHECKPOINT, _skip_checkpoints)
    change_after_import(_FSDP1, _skip_optimizer_state)
    for name in ("enable_symm_mem_for_group", "get_symm_mem_workspace", "rendezvous", "empty"):
        setattr(_symmetric_memory, name, _refusing(f"torch.distributed._symmetric_memory.{name}"))
    for name in ("rendezvous", "has_multicast_support"):
        setattr(torch._C._distributed_c10d._SymmetricMemory, name, _refusing(f"_SymmetricMemory.{name}"))


def _refusing(name):
    def refuse(*_, **__):
        raise HeadroomError(f"{name} maps the memory of other ranks' GPUs, and the simulation has no such GPUs: "
                            "record the step with "
                            "NCCL's collectives (in torchtitan without async tensor parallelism)")

    return refuse


def _skipped(name, result):
    def call(*_, **__):
        remarks.add(f"{name} was left out: the other ranks that would take part do not run")
        return result()

    return call


def _skip_optimizer_state(module):
    """FSDP1's optim_state_dict() gathers the state of flat parameters from all ranks, by names that only the owning
    ranks know."""
    kind = module.FullyShardedDataParallel
    name = f"{_FSDP1.rpartition('.')[0]}.{kind.__name__}.optim_state_dict"
    kind.optim_state_dict = staticmethod(_skipped(name, dict))


def _skip_checkpoints(module):
    def done():
        future = concurrent.futures.Future()
        future.set_result(None)
        return future

    for place in (module, sys.modules[f"{_CHECKPOINT}.state_dict_saver"]):
        place.save = _skipped(f"{_CHECKPOINT}.save", lambda: None)
        place.async_save = _skipped(f"{_CHECKPOINT}.async_save", done)
