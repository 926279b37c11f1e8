# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads values of the program without running code of the program: a class may derive from tuple, list or dict and
override len(), iteration, values() or comparison, and an object may have properties or a __getattr__ that compute."""

import collections
import types

_MRO = type.__dict__["__mro__"]
_READERS = ((dict, dict.values), (tuple, tuple.__iter__), (list, list.__iter__), (set, set.__iter__),
            (frozenset, frozenset.__iter__), (collections.deque, collections.deque.__iter__))


def is_a(value, kinds):
    """Returns isinstance(value, kinds) for the class that `value` has: isinstance() also asks a `__class__` that the
    program computes, as proxies do."""
    return issubclass(type(value), kinds)


def bases_of(cls):
    """Returns the classes from which a class derives, itself first."""
    return _MRO.__get__(cls)


def has_member(cls, name):
    """Returns whether a class or one of its bases defines `name`."""
    return any(name in type.__dict__["__dict__"].__get__(base) for base in bases_of(cls))


def values_in(container):
    """Returns the values in a tuple, list, dict, set or deque as a list, in the order of the built-in class."""
    cls = type(container)
    if issubclass(cls, collections.OrderedDict):
        return list(collections.OrderedDict.values(container))
    return list(next(read for kind, read in _READERS if issubclass(cls, kind))(container))


def keys_of(mapping):
    """Returns the keys of a dict as a list, in the order of values_in()."""
    is_ordered = issubclass(type(mapping), collections.OrderedDict)
    return list((collections.OrderedDict if is_ordered else dict).__iter__(mapping))


def attributes_of(thing):
    """Returns the dict with the attributes of an object, which may be changed; None: the object has none."""
    for base in bases_of(type(thing)):
        found = type.__dict__["__dict__"].__get__(base).get("__dict__")
        if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):  # not a property of the program
            return found.__get__(thing)
    return None
