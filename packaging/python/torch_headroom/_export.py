# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.export(): runs torch.export, and adds notes on the model for Headroom to the file."""

import json
import pathlib
import tempfile

import torch

from ._library import HeadroomError


def tied_weights(model):
    """Returns groups of names of parameters and buffers that are the same tensor: [[name, name, …], …]."""
    names = {}
    for owner, module in model.named_modules(remove_duplicate=False):
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    names.setdefault(id(tensor), []).append(f"{owner}.{name}" if owner else name)
    return [sorted(set(group)) for group in names.values() if len(set(group)) > 1]


def _batch_dimension(args, kwargs):
    """Returns shapes with one dynamic dimension: the first dimension of every tensor that has the same size there as
    the first tensor."""
    tensors = [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.dim()]
    if not tensors:
        raise HeadroomError("dynamic_batch needs an argument that is a tensor with a batch dimension")
    size = tensors[0].shape[0]
    if size < 2:
        raise HeadroomError("dynamic_batch needs example arguments with a batch of at least 2: torch.export takes 1 as "
                            "fixed")
    batch = torch.export.Dim("batch")

    def dimensions(value):
        dynamic = isinstance(value, torch.Tensor) and value.dim() and value.shape[0] == size
        return {0: batch} if dynamic else None

    return torch.utils._pytree.tree_map(dimensions, tuple(args)), torch.utils._pytree.tree_map(dimensions, kwargs)


def _shapes(model, args, kwargs):
    positional, named = _batch_dimension(args, kwargs)
    # torch.export takes dynamic shapes by parameter name if some arguments are passed by name.
    if not kwargs:
        return positional
    import inspect

    names = list(inspect.signature(model.forward).parameters)
    return dict(zip(names, positional)) | named


def _program(model, args, kwargs, shapes):
    try:
        # strict=False traces the Python code as the code runs. Such a trace works even where Dynamo has a graph break.
        return torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # the model's code may raise anything
        lines = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        raise HeadroomError(f"torch.export cannot export {type(model).__name__}: {reason}") from error


def export(model, args, path, kwargs=None, dynamic_batch=False):
    """Writes `model` as a .pt2 file that headroom opens, without Python.

    `args` is the tuple of example arguments, `kwargs` holds the arguments passed by name. The file of a model on the
    meta device has no weights. `dynamic_batch`: the step can be recorded at batch sizes other than the arguments' size.
    Returns the path of the file. Raises HeadroomError with one sentence if the arguments are wrong, or if torch.export
    fails.
    """
    path = pathlib.Path(path)
    if path.suffix != ".pt2":
        raise HeadroomError(f"{path}: the name of an exported model has to end in .pt2 (torch.export)")
    if not path.parent.is_dir():
        raise HeadroomError(f"{path}: there is no folder {path.parent}; create the folder first")
    if not isinstance(model, torch.nn.Module):
        raise HeadroomError(f"the model is a {type(model).__name__}: expected a torch.nn.Module")
    if not isinstance(args, (tuple, list)):
        raise HeadroomError("args is the tuple of the model's arguments: write (x,) for a single argument")
    if not isinstance(kwargs or {}, dict):
        raise HeadroomError("kwargs is a dict of the model's arguments by name")
    args, kwargs = tuple(args), dict(kwargs or {})
    shapes = _shapes(model, args, kwargs) if dynamic_batch else None
    program = _program(model, args, kwargs, shapes)
    types = {name: f"{type(m).__module__}.{type(m).__qualname__}" for name, m in model.named_modules()}
    notes = {
        "headroom_tied_weights.json": json.dumps(tied_weights(model)),
        "headroom_module_types.json": json.dumps(types),
    }
    # The file appears whole or not at all. torch.export.save() wants a name that ends in .pt2.
    target = path.resolve()  # of a link, the file behind it is replaced
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}.", dir=target.parent) as folder:
        written = pathlib.Path(folder, path.name)
        torch.export.save(program, str(written), extra_files=notes)
        written.replace(target)
    return path
