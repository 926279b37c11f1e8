# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes tensors of classes like DTensor apart, and makes them again, for the library (core/record/shadow_save.cpp)."""

import functools

import torch

from ._modules import inner_tensors, is_plain, plain_parts


def _parts(tensor):
    return [] if is_plain(type(tensor)) else plain_parts(tensor)


def _with_parts(tensor, parts):
    with torch.no_grad():
        return _made(tensor, iter(parts)).requires_grad_(False)


def _made(tensor, parts):
    if is_plain(type(tensor)):
        return next(parts)
    names, context = tensor.__tensor_flatten__()
    inner = {name: getattr(tensor, name) for name in names}
    wrapped = set(map(id, inner_tensors(tensor)))
    inner = {name: _made(part, parts) if id(part) in wrapped else part for name, part in inner.items()}
    return type(tensor).__tensor_unflatten__(inner, context, tensor.size(), tensor.stride())


@functools.lru_cache(maxsize=None)
def install():
    library = torch.library.Library("torch_headroom", "FRAGMENT")
    for schema, function in (("parts(Tensor tensor) -> Tensor[]", _parts),
                             ("with_parts(Tensor tensor, Tensor[] parts) -> Tensor", _with_parts)):
        library.define(schema)
        library.impl(schema.partition("(")[0], function, "CompositeImplicitAutograd")
    return library  # its registrations live as long as this object
