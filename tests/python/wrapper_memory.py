# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inductor's own memory plan, read from the code that it generates: which buffers it allocates, in which order, and when it
drops them. It knows nothing of what ran."""

import ast

import torch

BLOCK = 512  # PyTorch's allocator rounds to it
_ASSERTS = "assert_size_stride", "assert_tensor_metadata"  # the second from torch 2.15 on


def _bytes(size, stride, dtype):
    return dtype.itemsize * (1 + sum((n - 1) * s for n, s in zip(size, stride))) if all(size) else 0


def rounded(count):
    return -(-count // BLOCK) * BLOCK


class Plan:
    """One generated graph, gone through line by line.

    `before`, for a backward, is the plan of its forward, whose results it takes.
    `of_operators` says what an operator that is not Inductor's allocates: a function of its name that returns the element
    types of its results, whose sizes and strides the code asserts.
    """

    def __init__(self, source, before=None, of_operators=lambda name: ()):
        self._types = of_operators
        self._kept = set()  # storages that the program holds meanwhile: what the forward returned to it
        self._bytes = {}  # storage -> bytes, of those that live
        self._elements = {}  # name of an operator's result -> element types, until its size is asserted
        self.allocations = []  # bytes before rounding, in order
        self.buffers = []  # of these, what the code itself allocates and no operator
        graph = _call_of(source)
        self.arguments = [name.id for name in graph.body[0].targets[0].elts]
        self._storages = {name: name for name in self.arguments}
        if before is not None:
            self._take(before)
        self.live = self.peak = sum(self._bytes.values())
        self.returned = []  # storages of the results
        self._run(graph.body[1:])

    def _take(self, forward):
        """Backward: its first arguments are what the forward returned last."""
        saved = [name for name in self.arguments if not name.startswith("tangents")]
        for name, storage in zip(saved, forward.returned[-len(saved):]):
            self._storages[name] = storage
        self._bytes = dict(forward._bytes)
        self._kept = set(forward.returned[: -len(saved)])

    def _run(self, statements):
        for statement in statements:
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)

    def _with(self, statement):
        self._run(statement.body)

    def _expr(self, statement):
        call = statement.value
        if isinstance(call, ast.Call) and _name(call.func) in _ASSERTS:
            self._asserted(*(ast.literal_eval(item) if i else item for i, item in enumerate(call.args[:3])))

    def _asserted(self, tensor, size, stride):
        dtype = self._elements.pop(getattr(tensor, "id", None), None)
        if dtype is not None:
            self._allocate(tensor.id, _bytes(size, stride, dtype))

    def _assign(self, statement):
        (target,), value = statement.targets, statement.value
        if not isinstance(target, ast.Name):
            return
        name, base, function = target.id, _base(value), _name(getattr(value, "func", None))
        if base in self._storages:
            self._storages[name] = self._storages[base]
            self._drop_unnamed()
        elif function == "empty_strided_cuda":
            size, stride = (ast.literal_eval(item) for item in value.args[:2])
            self._allocate(name, _bytes(size, stride, getattr(torch, value.args[2].attr)))
            self.buffers.append(self.allocations[-1])
        elif function.startswith(("torch.ops.", "aten.")):
            self._elements[name] = self._types(function)
        elif isinstance(value, ast.Subscript) and value.value.id in self._elements:
            self._elements[name] = self._elements[value.value.id][ast.literal_eval(value.slice)]

    def _allocate(self, name, count):
        storage = self._storages[name] = f"{name} {len(self.allocations)}"
        self.allocations.append(count)
        self._bytes[storage] = rounded(count)
        self.live += rounded(count)
        self.peak = max(self.peak, self.live)

    def _delete(self, statement):
        for target in statement.targets:
            self._storages.pop(target.id, None)
        self._drop_unnamed()

    def _drop_unnamed(self):
        for storage in self._bytes.keys() - set(self._storages.values()) - self._kept:
            self.live -= self._bytes.pop(storage)

    def _return(self, statement):
        self.returned = [self._storages.get(_base(item)) for item in statement.value.elts]
        self._storages = {storage: storage for storage in self.returned}
        self._drop_unnamed()


def _call_of(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == "call" and len(node.body) > 1:
            return node
    raise ValueError("no function `call`")


def _name(node):
    return f"{_name(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _base(value):
    """The tensor of which an expression is, or is a view."""
    while isinstance(value, ast.Call) and _name(value.func) == "reinterpret_tensor":
        value = value.args[0]
    return getattr(value, "id", None)
