# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distributed checkpoints are not written: each rank writes a part, and the others are not there."""

import concurrent.futures
import importlib.abc
import importlib.util
import sys

_NAME = "torch.distributed.checkpoint"


def patch():
    if _NAME in sys.modules:
        _leave_out(sys.modules[_NAME])
    else:
        sys.meta_path.insert(0, _Import())


def _leave_out(module):
    def told(name, result):
        def call(*arguments, **named):
            print(f"torch-headroom: {_NAME}.{name} is left out: the other ranks, which would write their parts, do not run",
                  file=sys.stderr)
            return result()

        return call

    def done():
        future = concurrent.futures.Future()
        future.set_result(None)
        return future

    savers = sys.modules[f"{_NAME}.state_dict_saver"]
    for place in (module, savers):
        place.save = told("save", lambda: None)
        place.async_save = told("async_save", done)


class _Import(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name != _NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        _leave_out(module)
