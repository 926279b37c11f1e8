# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions of PyTorch and of other libraries that call Headroom's code before and after their own work."""

import functools


def around(before=None, after=None):
    """Returns a decorator. The decorated function also calls `before` and `after`, with its own arguments."""

    def decorate(function):
        @functools.wraps(function)
        def call(*arguments, **named):
            if before:
                before(*arguments, **named)
            result = function(*arguments, **named)
            if after:
                after(*arguments, **named)
            return result

        return call

    return decorate


def patch_around(owner, name, before=None, after=None):
    """Decorates a function of a class or module in place."""
    setattr(owner, name, around(before, after)(getattr(owner, name)))
