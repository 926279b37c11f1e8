# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA's managed memory, in which bitsandbytes' paged optimizers keep their state. It is host memory, whose pages move
to the card when kernels read them, as far as they fit. It does not count as the step's memory on the card."""

import weakref

import torch

live = 0  # bytes


def patch_bitsandbytes(functional):
    prefetch, elementwise = functional.prefetch_tensor, functional.elementwise_func

    def get_paged(*shape, dtype=torch.float32, device=None):
        paged = torch.zeros(shape, dtype=dtype)  # its pages are not touched yet
        paged.is_paged, paged.page_deviceid = True, 0
        _count(paged)
        return paged

    def prefetch_tensor(tensor, to_cpu=False):
        if not getattr(tensor, "is_paged", False):
            prefetch(tensor, to_cpu)

    def elementwise_func(name, tensor, *arguments, **named):
        if not getattr(tensor, "is_paged", False):
            elementwise(name, tensor, *arguments, **named)

    functional.get_paged, functional.prefetch_tensor = get_paged, prefetch_tensor
    functional.elementwise_func = elementwise_func


def _count(tensor):
    global live
    live += tensor.nbytes
    weakref.finalize(tensor.untyped_storage(), _freed, tensor.nbytes).atexit = False


def _freed(size):
    global live
    live -= size
