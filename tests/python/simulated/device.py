# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated device in this Python process as a C++ program has it, and tensors of the CPU copied to a device."""

import atexit
import ctypes
import json
import types

import torch

from torch_headroom._simulate import memory


class SimulatedDevice:
    """Headroom's library, with its device registered in this process under the name `sim`."""

    def __init__(self, library, gpu):
        self._library = ctypes.CDLL(library)
        self._library.headroom_simulate.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self._library.headroom_last_error.restype = ctypes.c_char_p
        if self._library.headroom_simulate(gpu.encode(), b"sim") != 0:
            raise RuntimeError(self._library.headroom_last_error().decode())
        atexit.register(self._library.headroom_await_autograd)
        torch._register_device_module("sim", _device_module())

    def memory(self):
        return memory.read(self._library)

    def reset_peak(self):
        self._library.headroom_reset_peak()

    def fallbacks(self):
        return fallbacks(self._library)


def fallbacks(library):
    """Ops that ran on zeros for want of a kernel: [{"op", "count"}]."""
    library.headroom_fallbacks.restype = ctypes.c_char_p
    return json.loads(library.headroom_fallbacks())


def _device_module():
    module = types.ModuleType("torch.sim")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.manual_seed_all = lambda seed: None
    module._is_in_bad_fork = lambda: False
    module._lazy_init = lambda: None
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    return module


def remove_python_meta_kernels():
    """`import torch` registers Meta kernels written in Python, which a C++ program such as torch-headroom-record lacks."""
    import torch._meta_registrations as registrations

    registrations._meta_lib_dont_use_me_use_register_meta._destroy()


class Twins:
    """Copies on a device of tensors on the CPU, with their values, sizes, strides, storages and aliasing."""

    def __init__(self, device):
        self._device = device
        self._tensors = {}
        self._storages = {}

    def of(self, value):
        """A value of a sample's arguments, as the same call on the device has it."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.device) and value.type == "cpu" or value == "cpu":
            return torch.device(self._device)
        return value

    def _tensor(self, tensor):
        # The key keeps the tensor alive, so that its id is not given to another.
        known = self._tensors.get(id(tensor))
        if known is None:
            known = (tensor, self._make(tensor))
            self._tensors[id(tensor)] = known
        return known[1]

    def _make(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            values = torch.empty(0, dtype=torch.uint8).set_(storage)
            self._storages[storage._cdata] = (storage, values.to(self._device).untyped_storage())
        result = torch.empty(0, dtype=tensor.dtype, device=self._device)
        with torch.no_grad():
            result.set_(self._storages[storage._cdata][1], tensor.storage_offset(), tensor.size(), tensor.stride())
        if tensor.is_conj():
            result = result.conj()
        if tensor.is_neg():
            result = torch._neg_view(result)
        return result.requires_grad_(tensor.requires_grad)
