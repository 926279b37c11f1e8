# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program's data loaders: the longest batch, for `--longest-batch N`, without that option the batches after the
recorded step, and the end of an epoch, for `--evaluation`.

When the program first reads a torch.utils.data.DataLoader, what N batches consist of is read, and nothing is trained. A
loader that shuffles its samples may put any samples into a batch: the samples are read, and the longest samples make the
longest batch. Of other loaders the batches are read, with the program's own workers, sampler and collate function. The
loader then gives its first batch, and from the second batch on the longest batch, as often as the loader has batches. So
the recorded step is that of the longest batch, with any number of micro-batches.

Without the option the loaders give their batches as ever. After the recorded step, and before the program ends, the
next batches are read: a later step with a larger batch takes more memory than the recorded step.

With `--evaluation` the epoch ends after the recorded step, so that the program evaluates. A Trainer of transformers is
told to evaluate. The program ends with the evaluation, or where the program would write a file."""

import contextlib
import copy
import itertools
import math
import os
import sys
import tempfile
import threading
import time
import weakref

import torch
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, dataloader

from .._library import HeadroomError
from .loop import Finished


class _Found:
    """What the search found in a loader."""

    def __init__(self, first, longest, count, sentence):
        self.first, self.longest = first, longest  # batches
        self.count = count  # batches that the loader gives; None: no end is known
        self.sentence = sentence  # which batch is the longest
        self.is_begun = False  # the first batch was given


class Loaders:
    """What the recorder does with the program's data loaders. `longest_batch` and `evaluation` are the options; `recorder`
    is the StepRecorder, and `loop` the ScriptLoop."""

    def __init__(self, recorder, loop, longest_batch, evaluation):
        self._recorder = recorder
        if longest_batch:
            self._batches = LongestBatches(longest_batch, lambda sentence: recorder.note("longest batch", sentence))
        else:
            self._batches = BatchesToCome()
            loop.before_end = self._batches.read
        self._evaluation = None
        if evaluation:
            self._evaluation = loop.evaluation = self._batches.evaluation = Evaluation(self._batches.latest)
        self.was_to_evaluate = False

    def install(self):
        self._batches.install()

    def remove(self):
        """Puts torch back. Sets `was_to_evaluate`: the program was led to an evaluation."""
        self.was_to_evaluate = bool(self._evaluation and self._evaluation.end())
        self._batches.remove()

    def take(self, error, may_record_again):
        """Returns whether an error of the program only ends the evaluation. A card without room for the evaluation is
        an answer if the recorder `may_record_again`, as on a larger card."""
        if not self._evaluation or not self._evaluation.began or (
                may_record_again and isinstance(error, torch.OutOfMemoryError)):
            return False
        self._evaluation.failure = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
        return True

    def unused(self):
        """Returns a sentence if an option needs a data loader, and the program has read none; empty otherwise."""
        return self._batches.unused()

    def describe(self):
        """Adds what is known of batches and the evaluation to the finished step and the recorder's notes."""
        if self._batches.sentence:
            self._recorder.notes.append(self._batches.sentence)
        if self._batches.setting and self._batches.sentence:
            self._recorder.add_setting(self._batches.setting, self._batches.sentence)
        if self.was_to_evaluate:
            self._recorder.discard()  # of a step that the program began
            self._recorder.add_evaluation()
            self._recorder.notes.append(self._evaluation.sentence())
            if self._evaluation.has_run:
                self._recorder.add_setting("evaluation", self._evaluation.sentence())


class _Iterator:
    """Stands for an iterator of a loader that gives the longest batch."""


class _Batches:
    """What follows the batches of the program's data loaders."""

    setting = ""  # name of the setting of the finished step that has `sentence`; empty: there is none

    def __init__(self):
        self._latest = lambda: None  # weak reference to what gave the latest batch
        self.evaluation = None  # Evaluation, if an evaluation is recorded
        self.sentence = ""  # what is known of the batches; empty: nothing

    def latest(self):
        """Returns the iterator of a loader, or the _Iterator, that gave the latest batch; None: there is none."""
        return self._latest()

    def unused(self):
        """Returns a sentence if the program has read no data loader, and has to; empty otherwise."""
        return ""


class LongestBatches(_Batches):
    """Makes the data loaders of this process give the longest of their first `most` batches. `note` is called with a
    sentence about the longest batch when the program begins to read another loader."""

    def __init__(self, most, note):
        super().__init__()
        self._most, self._note = most, note
        self._found = weakref.WeakKeyDictionary()  # loader -> _Found
        self._original = DataLoader.__iter__
        self._searches = False

    def install(self):
        def iterate(loader):
            if self._searches or torch.utils.data.get_worker_info() is not None:
                return self._original(loader)
            return self._batches(loader)

        DataLoader.__iter__ = iterate

    def remove(self):
        DataLoader.__iter__ = self._original

    def unused(self):
        return "" if self.sentence else (
            "the program read no batch from a torch.utils.data.DataLoader before the recorded step ended, as "
            "--longest-batch "
            "needs: leave the option out, and give the script the longest sample by an argument")

    def _batches(self, loader):
        iterator = _Iterator()
        if loader not in self._found:
            self._searches = True
            try:
                self._found[loader] = self._search(loader)
            finally:
                self._searches = False
        found = self._found[loader]
        for _ in itertools.count() if found.count is None else range(found.count):
            if self.evaluation and self.evaluation.ends(iterator):
                return
            self._latest = weakref.ref(iterator)
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


_MOST_TO_READ = 64  # batches
_SECONDS_TO_READ = 1.0  # after which no further batch is read


def _next_batches(read):
    """Yields the next batches of a loader, of which `read` returns one."""
    begin = time.monotonic()
    with contextlib.suppress(Exception):  # the loader has no more batches, or the program would have failed here
        for _ in range(_MOST_TO_READ):
            yield read()
            if time.monotonic() - begin > _SECONDS_TO_READ:
                return


class BatchesToCome(_Batches):
    """Compares the batches that the program's data loaders would give after the recorded step with the batches until
    there."""

    setting = "larger batch to come"  # of the step, with `sentence`

    def __init__(self):
        super().__init__()
        self._largest = weakref.WeakKeyDictionary()  # iterator of a loader -> (size, shapes) of the largest batch given
        self._original = dataloader._BaseDataLoaderIter.__next__

    def install(self):
        def give(iterator):
            if self.evaluation and self.evaluation.ends(iterator):
                raise StopIteration
            batch = self._next(iterator)
            if torch.utils.data.get_worker_info() is None:
                size = _size(batch)
                if iterator not in self._largest or size > self._largest[iterator][0]:
                    self._largest[iterator] = size, _shapes(batch)
                self._latest = weakref.ref(iterator)
            return batch

        dataloader._BaseDataLoaderIter.__next__ = give

    def _next(self, iterator):
        """Returns the next batch; in an evaluation the largest of the next batches."""
        if self.evaluation and self.evaluation.gives(iterator):
            largest = max(_next_batches(lambda: self._original(iterator)), key=_size, default=None)
            if largest is not None:
                return largest
        return self._original(iterator)

    def remove(self):
        dataloader._BaseDataLoaderIter.__next__ = self._original

    def read(self):
        """Reads the next batches of the loader that gave the latest batch."""
        iterator = self._latest()
        if iterator is None:
            return
        larger = self._largest[iterator]
        for number, batch in enumerate(_next_batches(lambda: self._original(iterator)), 1):
            if _on_gpu(batch):
                return
            if _size(batch) > larger[0]:
                larger, at = (_size(batch), _shapes(batch)), number
        if larger is not self._largest[iterator]:
            grown, before = _growth(self._largest[iterator], larger)
            self.sentence = (f"a later step may take more memory: batch {at} of the data loader after the "
                             f"recorded step has {grown}, and no batch until there has more than {before} "
                             "(--longest-batch N records the step of the longest of N batches)")


class Evaluation:
    """Leads the program from the recorded step to an evaluation. `latest` returns the iterator that gave the latest
    batch; ScriptLoop calls the other methods."""

    _BATCHES = 2  # of each loader in an evaluation: the first, and the largest of the next
    _SECONDS = 60.0  # that the evaluation may take
    _STEPS = 4  # that the program may make, with batches that a loop has read ahead, until the epoch ends

    def __init__(self, latest):
        self._latest = latest
        self.began = False
        self.has_run = False  # a module was called in the evaluation
        self.failure = ""  # what the program raised after the recorded step
        self._cut = None  # the iterator that ends early
        self._is_cut = False
        self._given = weakref.WeakKeyDictionary()  # iterator -> number of batches since the recorded step
        self._evaluating = lambda: None  # weak reference to the iterator that gives batches to evaluate
        self._steps, self._deadline = 0, math.inf
        self._patches = []

    def step_ended(self):
        """Called after the requested step, and each later step. Returns whether the program goes on."""
        if not self.began:
            self.began = self._begin()
            return self.began
        self._steps += 1
        return self._steps < self._STEPS

    def step_begins(self):
        """Called before a training step. A loop that reads ahead still has batches of the iterator that has ended."""
        if self.has_run or (self._is_cut and self._latest() is not self._cut):
            raise Finished

    def called(self):
        """Called before a module that is called without gradients."""
        if self.began and time.monotonic() > self._deadline:
            raise Finished
        if self.began and (self._is_cut or self._cut is None):
            self.has_run = True
            self._evaluating = weakref.ref(self._latest()) if self._latest() is not None else self._evaluating

    def end(self):
        """Puts torch and other libraries back. Returns whether the program was to evaluate."""
        self.began, began = False, self.began
        while self._patches:
            setattr(*self._patches.pop())
        return began

    def sentence(self):
        """Returns what was recorded."""
        if self.has_run:
            return ("an evaluation after the step is recorded, with two batches of a data loader: the first, and the "
                    "largest of the next")
        why = f": the program raised {self.failure}" if self.failure else " before the program went on or wrote a file"
        return f"no evaluation followed the recorded step{why}"

    def _begin(self):
        trainer = _running_trainer()
        if trainer is not None:
            if trainer.args.eval_strategy == "no":
                return False
            self._evaluate_by(sys.modules["transformers.trainer_callback"].DefaultFlowCallback)
        else:
            self._cut = self._latest()
            if self._cut is None:
                return False
        self._deadline = time.monotonic() + self._SECONDS
        self._leave_files_alone()
        return True

    def _patch(self, owner, name, function):
        original = getattr(owner, name)
        self._patches.append((owner, name, original))
        setattr(owner, name, lambda *args, **kwargs: function(original, *args, **kwargs))

    def ends(self, iterator):
        """Returns whether an iterator gives no further batch."""
        if not self.began:
            return False
        if iterator is self._cut:
            self._is_cut = True
            return True
        given = self._given[iterator] = self._given.get(iterator, 0) + 1
        return self.gives(iterator) and given > self._BATCHES

    def gives(self, iterator):
        """Returns whether the batches of an iterator are evaluated."""
        return self.began and iterator is self._evaluating()

    def _evaluate_by(self, flow):
        """Makes a Trainer of transformers evaluate."""
        def step_ends(original, callback, args, state, control, **kwargs):
            control = original(callback, args, state, control, **kwargs)
            control.should_evaluate = True
            return control

        def evaluated(original, callback, *args, **kwargs):
            raise Finished

        self._patch(flow, "on_step_end", step_ends)
        self._patch(flow, "on_evaluate", evaluated)

    def _leave_files_alone(self):
        """The program computes no numbers: results of the evaluation must not replace files."""
        def save(original, value, file, *args, **kwargs):
            if not isinstance(file, (str, os.PathLike)):
                original(value, file, *args, **kwargs)

        self._patch(torch, "save", save)
        if "safetensors.torch" in sys.modules:
            self._patch(sys.modules["safetensors.torch"], "serialize_file", lambda original, *args, **kwargs: None)
        tempfile.gettempdir()  # which writes a file the first time
        sys.addaudithook(self._end_before_write)

    def _end_before_write(self, event, arguments):
        if self.began and event in _WRITING_EVENTS and threading.current_thread() is threading.main_thread():
            if _WRITING_EVENTS[event](*arguments):
                raise Finished


def _running_trainer():
    """Returns the Trainer of transformers whose loop runs; None: no Trainer runs."""
    frame = sys._getframe() if "transformers.trainer_callback" in sys.modules else None
    while frame is not None:
        if frame.f_code.co_name == "_inner_training_loop":
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def _is_of_user(path, *_):
    """Returns whether a program's result may be in the file, not a temporary file, device or compiled module."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    path = os.path.realpath(os.fsdecode(path))
    is_temporary = path.startswith(tempfile.gettempdir() + os.sep) and not path.startswith(os.getcwd() + os.sep)
    return not (is_temporary or path.startswith(("/dev/", "/proc/")) or ".pyc" in path)


def _writes(path, mode, flags):
    return (bool(set(mode or "") & set("wax+")) or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))) and _is_of_user(path)


# Events of Python's audit hooks for files, with functions that return whether a file of the user changes.
_WRITING_EVENTS = {"open": _writes, **dict.fromkeys(("os.remove", "os.rename", "os.rmdir", "os.truncate",
                                                     "shutil.rmtree", "sqlite3.connect"), _is_of_user)}


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
