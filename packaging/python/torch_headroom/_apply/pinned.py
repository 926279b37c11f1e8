# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies between a device and pinned host memory: streams beside the compute stream, and a pool of buffers."""

import torch


class Cuda:
    """What offload needs of the device type with the tensors that move. Tests replace this class for the CPU."""

    type = "cuda"
    is_available = staticmethod(torch.cuda.is_available)
    Stream = torch.cuda.Stream
    current_stream = staticmethod(torch.cuda.current_stream)

    @staticmethod
    def current_id(index):
        """Returns a number for the current stream of a device, faster than current_stream()."""
        return torch._C._cuda_getCurrentRawStream(index)

    @staticmethod
    def pinned(nbytes):
        return torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=True)

    @staticmethod
    def used_by(storage, stream):
        """Tells the caching allocator that a stream uses a storage of another stream."""
        torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).record_stream(stream)


class NoPinnedMemory(Exception):
    """Raised if the host has no pinned memory left. `str()` is a sentence."""


class Card:
    """The streams for copies of one device, and pinned buffers by number of bytes."""

    def __init__(self, device):
        self._device = device
        self._out, self._in = Cuda.Stream(device), Cuda.Stream(device)
        self._computes = {}  # number of a stream -> stream
        self._free = {}  # bytes -> [(buffer, event of the last copy from the buffer, or None)]

    def compute(self):
        """Returns the current stream."""
        number = Cuda.current_id(self._device.index)
        stream = self._computes.get(number)
        if stream is None:
            stream = self._computes[number] = Cuda.current_stream(self._device)
        return stream

    def wait(self, event, waited=()):
        """Lets all streams that compute() has returned wait for the event, but not those that have waited."""
        for stream in tuple(self._computes.values()):  # a thread of backward may add another
            if stream not in waited:
                stream.wait_event(event)

    def buffer(self, nbytes):
        """Returns a buffer that copy_out() may write. Where a new buffer has to be made, unused buffers of other sizes
        make room: with batches of many lengths all sizes together would fill the host. PyTorch's allocator of pinned
        memory gives the room out again when copies that read the memory are over."""
        free = self._free.get(nbytes)
        if free:
            buffer, read = free.pop()
            if read is not None:
                self._out.wait_event(read)
            return buffer
        self._drop(nbytes)
        try:
            return Cuda.pinned(nbytes).untyped_storage()
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise NoPinnedMemory(f"the host gives no {nbytes:,} bytes of pinned memory ({reason}): free host memory, or plan "
                                 "with a smaller --host-memory") from error

    def _drop(self, nbytes):
        """Drops unused buffers of at least so many bytes together, as far as there are any."""
        for size in list(self._free):
            while self._free[size] and nbytes > 0:
                self._free[size].pop()
                nbytes -= size
            if not self._free[size]:
                del self._free[size]

    def give_back(self, buffer, read=None):
        """`read` is the event of a copy from the buffer. The stream of copy_out() orders copies into the buffer."""
        self._free.setdefault(buffer.nbytes(), []).append((buffer, read))

    def copy_out(self, storage, buffer, compute):
        """Begins to copy a storage into a buffer. Returns the event of the copy."""
        self._out.wait_event(compute.record_event())
        with self._out:
            buffer.copy_(storage, True)
        return self._out.record_event()

    def copy_in(self, buffer, written, compute):
        """Begins to copy a buffer into a new block. `written` is the event of copy_out(). Returns the block's storage
        and the event of the copy."""
        block = torch.empty(buffer.nbytes(), dtype=torch.uint8, device=self._device).untyped_storage()
        self._in.wait_event(compute.record_event())
        self._in.wait_event(written)
        with self._in:
            block.copy_(buffer, True)
        return block, self._in.record_event()
