# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that only another rank has, such as the shapes that a pipeline stage gets from the stage before it, or an
object or a few numbers that rank 0 broadcasts.

When such an object is requested, the rank that sends it is started as a companion: the same script in another process,
which simulates its own GPU. The ranks of a job share a folder with one file per object, written by the sender.
"""

import ctypes
import fcntl
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

from ._library import HeadroomError

_FOLDER = "TORCH_HEADROOM_JOB"  # set for companions: the folder of the job
_POLL_SECONDS = 0.02  # between two looks for a file
_MOST_BYTES = 1024  # of a tensor of integers that is fetched: it holds sizes and the like, no data
_PR_SET_PDEATHSIG = 1


class _Meeting:
    """The folder in which the ranks of a job exchange objects. The first rank makes it, and starts companions."""

    def __init__(self, job, command_line):
        self._job = job
        self._command_line = command_line
        self._given = os.environ.get(_FOLDER)  # set in a companion
        self._folder = None  # made at first use
        self._numbers = {}  # key -> counter of its messages

    def _place(self):
        if self._folder is None:
            if self._given is None:
                self._kept = tempfile.TemporaryDirectory(prefix="torch-headroom-job-")
            self._folder = pathlib.Path(self._given or self._kept.name)
            if self._given is None:
                self._lock(self._job.rank)
        return self._folder

    def is_companion(self):
        return self._given is not None

    def next(self, key):
        return f"{key}-{next(self._numbers.setdefault(key, itertools.count()))}"

    def send(self, name, objects):
        path = self._place() / name
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(objects))
        part.rename(path)

    def receive(self, name, source):
        path = self._place() / name
        self._start(source)
        while not path.exists():
            if self._has_ended(source) and not path.exists():
                raise HeadroomError(f"rank {source}, which was started for what it tells rank {self._job.rank}, ended "
                                    f"before: {self._last_words(source)}")
            time.sleep(_POLL_SECONDS)
        return pickle.loads(path.read_bytes())

    def _lock(self, rank):
        """Takes the lock of a rank and returns its descriptor; the rank holds it as long as it runs. None if the rank
        was started before."""
        try:
            descriptor = os.open(self._place() / f"rank-{rank}", os.O_CREAT | os.O_EXCL | os.O_RDWR)
        except FileExistsError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def _start(self, rank):
        descriptor = self._lock(rank)
        if descriptor is None:
            return
        options, script = self._command_line
        words = [*options, "--rank", str(rank), "-o", str(self._place() / f"rank-{rank}.hrs"), *script]
        with open(self._place() / f"rank-{rank}.text", "wb") as text:
            subprocess.Popen([sys.executable, "-m", "torch_headroom.record", *words], stdin=subprocess.DEVNULL,
                             stdout=text, stderr=text, pass_fds=(descriptor,),
                             env={**os.environ, _FOLDER: str(self._place())}, preexec_fn=_end_with_parent)
        os.close(descriptor)

    def _has_ended(self, rank):
        with open(self._place() / f"rank-{rank}") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def _last_words(self, rank):
        lines = (self._place() / f"rank-{rank}.text").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _end_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def patch(job, command_line):
    meeting = _Meeting(job, command_line)
    c10d = dist.distributed_c10d

    def other(rank, group_rank, group):
        return dist.get_global_rank(group or dist.group.WORLD, group_rank) if rank is None else rank

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
        meeting.send(meeting.next(f"{job.rank}-to-{other(dst, group_dst, group)}"), list(object_list))

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
        if src is None and group_src is None:
            raise HeadroomError("recv_object_list() takes from any rank: say which one, as only one is started")
        source = other(src, group_src, group)
        object_list[:] = meeting.receive(meeting.next(f"{source}-to-{job.rank}"), source)
        return source

    broadcast_objects = dist.broadcast_object_list

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
        if dist.get_rank(group) < 0:
            return
        source = other(src, group_src if src is not None or group_src is not None else 0, group)
        name = meeting.next(f"{(group or dist.group.WORLD).group_name}-from-{source}")
        if source == job.rank:
            meeting.send(name, list(object_list))
        else:
            object_list[:] = meeting.receive(name, source)
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
        name = meeting.next(f"{(group or dist.group.WORLD).group_name}-numbers-from-{source}")
        if source != job.rank:
            tensor.copy_(torch.tensor(meeting.receive(name, source), dtype=tensor.dtype).view_as(tensor))
        elif meeting.is_companion():
            meeting.send(name, tensor.tolist())
        return work

    for function in (send_object_list, recv_object_list, broadcast_object_list, broadcast):
        for module in (dist, c10d):
            setattr(module, function.__name__, function)
