# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The longest batch of a program's data loaders, for `--longest-batch N`, and without that option the batches after
the recorded step.

When the program first reads a torch.utils.data.DataLoader, what N batches consist of is read, and nothing is trained. A
loader that shuffles its samples may put any samples into a batch: the samples are read, and the longest samples make the
longest batch. Of other loaders the batches are read, with the program's own workers, sampler and collate function. The
loader then gives its first batch, and from the second batch on the longest batch, as often as the loader has batches. So
the recorded step is that of the longest batch, with any number of micro-batches.

Without the option the loaders give their batches as ever. After the recorded step, and before the program ends, the
next batches are read: a later step with a larger batch takes more memory than the recorded step."""

import copy
import itertools
import math
import time
import weakref

import torch
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, dataloader

from .._library import HeadroomError


class _Found:
    """What the search found in a loader."""

    def __init__(self, first, longest, count, sentence):
        self.first, self.longest = first, longest  # batches
        self.count = count  # batches that the loader gives; None: no end is known
        self.sentence = sentence  # which batch is the longest
        self.is_begun = False  # the first batch was given


class LongestBatches:
    """Makes the data loaders of this process give the longest of their first `most` batches. `note` is called with a
    sentence about the longest batch when the program begins to read another loader."""

    def __init__(self, most, note):
        self._most, self._note = most, note
        self._found = weakref.WeakKeyDictionary()  # loader -> _Found
        self._original = DataLoader.__iter__
        self._searches = False
        self.sentence = ""  # about the loader that gave the latest batch; empty: no batch was read

    def install(self):
        def iterate(loader):
            if self._searches or torch.utils.data.get_worker_info() is not None:
                return self._original(loader)
            return self._batches(loader)

        DataLoader.__iter__ = iterate

    def remove(self):
        DataLoader.__iter__ = self._original

    def unused(self):
        """Returns a sentence if the program has read no data loader; empty otherwise."""
        return "" if self.sentence else (
            "the program read no batch from a torch.utils.data.DataLoader before the recorded step ended, as "
            "--longest-batch "
            "needs: leave the option out, and give the script the longest sample by an argument")

    def _batches(self, loader):
        if loader not in self._found:
            self._searches = True
            try:
                self._found[loader] = self._search(loader)
            finally:
                self._searches = False
        found = self._found[loader]
        for _ in itertools.count() if found.count is None else range(found.count):
            if self.sentence != found.sentence:
                self.sentence = found.sentence
                self._note(found.sentence)
            # A copy, since programs change batches, as by batch.pop("labels").
            batch = copy.deepcopy(found.longest if found.is_begun else found.first)
            found.is_begun = True
            yield dataloader._utils.pin_memory.pin_memory(batch) if loader.pin_memory else batch

    def _search(self, loader):
        return self._among_samples(loader) if _shuffles(loader) else self._among_batches(loader)

    def _among_samples(self, loader):
        """Finds the longest samples of a loader that shuffles."""
        most = self._most * loader.batch_size
        samples = list(itertools.islice(loader.sampler, most))
        sizes = {sample: _size(_read(loader, [sample])) for sample in samples}
        by_size = sorted(sizes, key=sizes.get, reverse=True)
        first, longest = (_read(loader, chosen[:loader.batch_size]) for chosen in (samples, by_size))
        _refuse_gpu(longest)
        count = len(loader.sampler)
        read = f"all {count:,}" if len(samples) == count else f"{len(samples):,} of {count:,}"
        decides = ("all are equally long" if sizes[by_size[0]] == sizes[by_size[-1]]
                   else f"sample {by_size[0]} is the longest")
        return _Found(first, longest, len(loader), (
            f"the longest {min(loader.batch_size, len(samples)):,} of {read} samples make the longest batch that "
            "the data "
            f"loader may shuffle: {_described(longest)}; {decides}"))

    def _among_batches(self, loader):
        """Finds the longest batch of a loader with an order of its own."""
        samples = []  # of each batch, in the order in which the loader asks for the batches
        original = dataloader._BaseDataLoaderIter._next_index

        def noted(iterator):
            samples.append(original(iterator))
            return samples[-1]

        first = longest = None
        size, index, count, is_whole = -1, 0, 0, False
        dataloader._BaseDataLoaderIter._next_index = noted
        try:
            batches = self._original(loader)
            while count < self._most and not is_whole:
                batch = next(batches, batches)
                is_whole = batch is batches  # the loader has no more
                if is_whole:
                    break
                _refuse_gpu(batch)
                first = batch if count == 0 else first
                if _size(batch) > size:
                    longest, size, index = batch, _size(batch), count
                count += 1
        finally:
            dataloader._BaseDataLoaderIter._next_index = original
        chosen = samples[index] if _is_map_style(loader) and index < len(samples) else []
        if not count:
            raise HeadroomError("--longest-batch: a data loader of the program has no batch: expected a loader with "
                                "data")
        read = f"all {count:,}" if is_whole else f"the first {count:,}"
        sentence = (f"batch {index + 1:,} is the longest of {read} batches of the data loader: {_described(longest)}"
                    f"{_deciding_sample(loader, chosen if isinstance(chosen, list) else [chosen])}")
        return _Found(first, longest, count if is_whole else None, sentence)


class BatchesToCome:
    """Compares the batches that the program's data loaders would give after the recorded step with the batches until
    there."""

    _MOST = 64  # batches to read
    _SECONDS = 1.0  # after which no further batch is read

    def __init__(self):
        self._largest = weakref.WeakKeyDictionary()  # iterator of a loader -> (size, shapes) of the largest batch given
        self._latest = lambda: None  # weak reference to the iterator that gave the latest batch
        self._original = dataloader._BaseDataLoaderIter.__next__
        self.sentence = ""  # about a larger batch; empty: there is none

    def install(self):
        def give(iterator):
            batch = self._original(iterator)
            if torch.utils.data.get_worker_info() is None:
                size = _size(batch)
                if iterator not in self._largest or size > self._largest[iterator][0]:
                    self._largest[iterator] = size, _shapes(batch)
                self._latest = weakref.ref(iterator)
            return batch

        dataloader._BaseDataLoaderIter.__next__ = give

    def remove(self):
        dataloader._BaseDataLoaderIter.__next__ = self._original

    def read(self):
        """Reads the next batches of the loader that gave the latest batch."""
        iterator = self._latest()
        if iterator is None:
            return
        begin, larger = time.monotonic(), self._largest[iterator]
        try:
            for number in range(1, self._MOST + 1):
                batch = self._original(iterator)
                if _on_gpu(batch):
                    return
                if _size(batch) > larger[0]:
                    larger, at = (_size(batch), _shapes(batch)), number
                if time.monotonic() - begin > self._SECONDS:
                    break
        except Exception:  # the loader has no more batches, or the program would have failed here
            pass
        if larger is not self._largest[iterator]:
            grown, before = _growth(self._largest[iterator], larger)
            self.sentence = (f"a later step may take more memory: batch {at} of the data loader after the "
                             f"recorded step has {grown}, and no batch until there has more than {before} "
                             "(--longest-batch N records the step of the longest of N batches)")


def _shapes(batch):
    return [(name, tuple(tensor.shape)) for name, tensor in _tensors("", batch)]


def _growth(known, larger):
    """Returns what the batch `larger`, a (size, shapes), has more than the batch `known`, and what the latter has, in
    words."""
    (size, shapes), (larger_size, larger_shapes) = known, larger
    pairs = [(before, after) for before, after in zip(shapes, larger_shapes) if before[0] == after[0]]
    if not pairs or len(shapes) != len(larger_shapes):
        return f"{larger_size:,} elements", f"{size:,}"
    before, after = max(pairs, key=lambda pair: math.prod(pair[1][1]) / max(math.prod(pair[0][1]), 1))
    return _in_words(*after), _in_words("", before[1])


def _on_gpu(batch):
    return any(tensor.device.type != "cpu" for _, tensor in _tensors("", batch))


def _refuse_gpu(batch):
    if _on_gpu(batch):
        raise HeadroomError("--longest-batch: the data loader makes batches on the GPU, where the kept batches would "
                            "count: expected batches on the CPU that the loop moves to the GPU")


def _shuffles(loader):
    """Returns whether the loader puts samples into batches at random, as many into each."""
    sampler = loader.sampler
    return (_is_map_style(loader) and loader.batch_size is not None and len(sampler) > 0
            and (isinstance(sampler, (RandomSampler, SubsetRandomSampler, WeightedRandomSampler))
                 or getattr(sampler, "shuffle", False) is True))


def _read(loader, samples):
    """Returns the batch of samples of a map-style data set."""
    fetch = getattr(loader.dataset, "__getitems__", None)
    return loader.collate_fn(fetch(samples) if fetch else [loader.dataset[sample] for sample in samples])


def _is_map_style(loader):
    return loader._dataset_kind == dataloader._DatasetKind.Map


def _size(value):
    """Returns the elements of all tensors and arrays in a batch, or of what a batch of other values consists of."""
    if isinstance(value, torch.Tensor):
        return value.numel()
    if hasattr(value, "size") and hasattr(value, "dtype"):  # of NumPy
        return int(value.size)
    if isinstance(value, (str, bytes)):
        return len(value)
    items = _items(value)
    return 1 if items is None else sum(_size(item) for _, item in items)


def _items(value):
    """Returns the parts of a container with their names; None: the value is none."""
    if hasattr(value, "items") and callable(value.items):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return [("", item) for item in value]
    if hasattr(value, "__dict__") and vars(value):
        return list(vars(value).items())
    return None


def _described(batch):
    """Returns the shape of the largest tensor of a batch, with its name where the batch has names."""
    name, tensor = max(_tensors("", batch), key=lambda pair: pair[1].numel(), default=("", None))
    return f"{_size(batch):,} elements" if tensor is None else _in_words(name, tensor.shape)


def _in_words(name, shape):
    sizes = " × ".join(f"{size:,}" for size in shape) or "1"
    return f"{name} of {sizes}" if name else sizes


def _tensors(name, value):
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    return [pair for key, item in _items(value) or () for pair in _tensors(str(key) or name, item)]


def _deciding_sample(loader, samples):
    """Returns which sample of the batch is the longest, as the end of a sentence; empty: not known."""
    if not samples:
        return ""
    sizes = [_size(_read(loader, [sample])) for sample in samples]
    if min(sizes) == max(sizes):
        return f"; all samples are equally long, from sample {samples[0]} on"
    return f"; sample {samples[sizes.index(max(sizes))]} decides"
