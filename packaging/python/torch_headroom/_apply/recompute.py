# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state around a forward that is recomputed in backward: RNG, attention kernels, autocast, cached weights of
parametrizations and the ops themselves are as at the first run, and the recomputation leaves nothing behind.

checkpoint() itself restores PyTorch's own generators and autocast. But torch.autocast caches the casts of weights until
the context ends, and linear() and scaled_dot_product_attention() of torch.nn.functional run other ops under a dispatch
mode than without a mode. Also the forward that a policy puts on a module; Dynamo traces this file."""

import contextlib
import copy
import ctypes
import functools
import inspect
import random
import sys
import threading
import weakref

import torch
from torch.nn.attention import _cur_sdpa_kernel_backends, _sdpa_kernel
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode

from .._modules import is_compiled
from .._torch import in_make_fx, pack_hook
from .policy import PolicyError


class RandomState:
    """RNG, attention state and cached weights of the process that the forward of `module` may read, as at the
    construction of this object."""

    def __init__(self, module):
        self._random = _random_state()
        self._attention = _attention_kernels()
        self._weights = _cached_weights(module)

    @contextlib.contextmanager
    def restored(self):
        """A context with the state, in which a forward is recomputed."""
        generators, kernels = _random_state(), _attention_kernels()
        weights = parametrize._cache_enabled, parametrize._cache
        _set_random_state(self._random)
        _set_attention_kernels(kernels, self._attention)
        parametrize._cache_enabled, parametrize._cache = self._weights[0], dict(self._weights[1])
        try:
            with _graph_without_tensors():
                yield
        finally:
            parametrize._cache_enabled, parametrize._cache = weights
            _set_attention_kernels(self._attention, kernels)
            _set_random_state(generators)


def _numpys_generator():
    """Returns the module with NumPy's global generator; None: the program has not imported it."""
    return sys.modules.get("numpy.random")


def _random_state():
    """Returns the states of the global generators of Python and NumPy."""
    numpys = _numpys_generator()
    return random.getstate(), None if numpys is None else numpys.get_state(legacy=False)


def _set_random_state(state):
    pythons, numpys = state
    random.setstate(pythons)
    if numpys is not None:
        _numpys_generator().set_state(numpys)


class GlobalGenerators:
    """The states of the global generators of Python, NumPy and PyTorch, on the CPU and on the current GPU."""

    __slots__ = ("_states",)

    def __init__(self):
        has_gpu = torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing()
        self._states = *_random_state(), torch.get_rng_state(), torch.cuda.get_rng_state() if has_gpu else None

    def _plain(self):
        """Returns the states for a comparison, without an op."""
        python, numpys, *torchs = self._states
        known = numpys and (numpys["state"]["key"].tobytes(), numpys["state"]["pos"], numpys["has_gauss"])
        return python, known, [state if state is None else ctypes.string_at(state.data_ptr(), state.nbytes)
                               for state in torchs]

    def are_as(self, other):
        return self._plain() == other._plain()

    def restore(self):
        python, numpys, of_cpu, of_gpu = self._states
        _set_random_state((python, numpys))
        torch.set_rng_state(of_cpu)
        if of_gpu is not None:
            torch.cuda.set_rng_state(of_gpu)


def _cached_weights(module):
    """Returns whether torch.nn.utils.parametrize.cached() is on, and the cached weights of a module and of all inner
    modules."""
    if not parametrize._cache:
        return parametrize._cache_enabled, {}
    inside = set(map(id, module.modules()))
    return parametrize._cache_enabled, {key: weight for key, weight in parametrize._cache.items() if key[0] in inside}


def _attention_kernels():
    """Returns the kernels that scaled_dot_product_attention() may take, and the order of the kernels: the settings of
    torch.nn.attention.sdpa_kernel()."""
    return _cur_sdpa_kernel_backends(), torch._C._get_sdp_priority_order()


def _set_attention_kernels(now, requested):
    if requested != now:
        backends, order = requested
        _sdpa_kernel(backends)
        torch._C._set_sdp_priority_order(order)


class _Packed:
    """What autograd saves in the run again."""

    __slots__ = ("tensor", "__weakref__")

    def __init__(self, tensor):
        self.tensor = tensor


@contextlib.contextmanager
def _graph_without_tensors():
    """Hands what autograd saves to checkpoint(), and takes the saved tensors off the graph at the end. Otherwise a
    tensor that the forward stores anywhere keeps the tensor's graph alive, and the graph all activations."""
    hand_over = pack_hook()
    if hand_over is None:
        yield
        return
    alive = weakref.WeakSet()

    def pack(tensor):
        packed = _Packed(hand_over(tensor))
        alive.add(packed)
        return packed

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, _unpack):
            yield
    finally:
        for packed in alive:
            packed.tensor = None


def _unpack(packed):
    if packed.tensor is None:
        raise RuntimeError("backward through a recomputation: the tensor comes from a module that ran again in "
                           "backward, and the graph is gone; use the tensor of the forward, or leave the module out "
                           "of the "
                           "plan (--pin)")
    return packed.tensor


_CAST = torch.ops.aten._to_copy.default


class _Casts(threading.local):
    """The casts that a thread runs now."""

    running = 0  # number of running casts


_casts = _Casts()


def _own_cast(name):
    """Returns a method of torch.Tensor that casts. While the method runs, a cast is the program's own: inside of a
    dispatch mode, nothing else tells that from autocast's."""
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def cast(*args, **kwargs):
        _casts.running += 1
        try:
            return original(*args, **kwargs)
        finally:
            _casts.running -= 1

    return cast


OWN_CASTS = {name: _own_cast(name) for name in ("to", "type", "type_as", "float", "double", "half", "bfloat16")}


def _is_inside_autocast():
    """Returns whether this thread has entered torch.autocast. Inside of autocast's kernels is_autocast_enabled() is
    False."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting() > 0


def is_cached_cast(op, args):
    """Returns whether an op seen by a dispatch mode is autocast's own cast of a weight (cached_cast in
    aten/src/ATen/autocast_mode.cpp). The program's own casts are told apart where OWN_CASTS replace torch's."""
    if op is not _CAST or _casts.running or not isinstance(args[0], torch.Tensor) or not _is_inside_autocast():
        return False
    weight = args[0]
    key = torch._C.DispatchKey.AutocastCPU if weight.device.type == "cpu" else torch._C.DispatchKey.AutocastCUDA
    return (weight.dtype == torch.float32 and weight.requires_grad and weight.is_leaf and not weight._is_view()
            and torch.is_autocast_cache_enabled() and torch._C._dispatch_tls_is_dispatch_key_excluded(key))


def beside_cached_casts(mode, watch=None, result=None, host=None):
    """Makes a selective context, `mode`, ignore autocast's casts of weights. Whether a region runs such casts depends
    on earlier calls, and from torch 2.12 on a recomputation finds an op by index. `watch`, if given, is called with the
    arguments of such casts, and `result` with the result of each other op. `host`, if given, returns a function that
    makes the result of an op in place of the context, or None. The context also ignores the recorder's marks of module
    calls, which are not ops of the program."""
    mode.__class__ = _beside_cached_casts(type(mode))
    mode.headroom_watch = watch
    mode.headroom_result = result
    mode.headroom_host = host
    return mode


@functools.cache
def _beside_cached_casts(mode_class):
    class BesideCachedCasts(mode_class):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            if isinstance(op, torch._ops.HigherOrderOperator):
                return _run_inside(self, op, args, kwargs or {})
            if getattr(op, "namespace", None) == "torch_headroom":
                return op(*args, **(kwargs or {}))
            if not is_cached_cast(op, args):
                made = self.headroom_host and self.headroom_host(op, args, kwargs or {})
                result = made() if made else super().__torch_dispatch__(op, types, args, kwargs)
                if self.headroom_result is not None:
                    self.headroom_result(result)
                return result
            if self.headroom_watch is not None:
                self.headroom_watch(op, args, kwargs or {})
            return op(*args, **(kwargs or {}))

    return BesideCachedCasts


def _run_inside(mode, op, args, kwargs):
    """Runs an operator of higher order, such as flex_attention(). `mode` sees the inner ops, as recorded. An operator
    that is written for other keys runs as a single op that is not kept."""
    kernel = op.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    if kernel is None:
        return op(*args, **kwargs)
    with mode:
        return kernel(*args, **kwargs)


class Recomputing:
    """Wraps the context of a recomputation so that the recomputation begins and ends with an empty autocast cache. On a
    GPU the cache is empty, since backward has a thread of its own; elsewhere casts would stay if backward runs inside
    another torch.autocast. Also enters TransformerEngine's autocast as in the forward: checkpoint() does so only for
    PyTorch's."""

    def __init__(self, context, begins=None):
        """`begins` is a function that is called first, outside of the context."""
        self.context = context
        self.begins = begins
        self.quantized = _quantized()
        self.entered = None

    def __enter__(self):
        if self.begins is not None:
            self.begins()
        torch.clear_autocast_cache()
        self.entered = self.quantized()
        self.entered.__enter__()
        return self.context.__enter__()

    def __exit__(self, kind, value, traceback):
        result = self.context.__exit__(kind, value, traceback)
        self.entered.__exit__(kind, value, traceback)
        torch.clear_autocast_cache()
        return result


def _quantized():
    """Returns a function that makes TransformerEngine's autocast context of this moment. Delayed scales change when
    that context ends, so no plan recomputes a module that reads delayed scales."""
    library = sys.modules.get("transformer_engine.pytorch.quantization")
    state = getattr(library, "FP8GlobalStateManager", None)
    if state is None or not hasattr(library, "autocast") or not state.is_fp8_enabled():
        return contextlib.nullcontext
    recipe = state.get_fp8_recipe()
    if recipe.delayed():
        return contextlib.nullcontext
    return functools.partial(library.autocast, recipe=recipe, amax_reduction_group=state.get_fp8_group())


def with_own_ops(forward):
    """Decorates a forward, to run inside OwnOps()."""

    def under_mode(*args):
        with OwnOps():
            return forward(*args)

    return under_mode


class OwnOps:
    """A context in which linear() and attention run the same ops under a dispatch mode as without a mode. Under a mode,
    such as a selective context, torch's functions add the bias and the mask out of place instead of in place: other ops
    than recorded, with one more tensor. A graph that torch.compile makes has torch's functions."""

    _torchs = {}  # name in torch.nn.functional -> torch's function
    _torchs_casts = {}  # name -> torch's method, if torch.Tensor defines the method
    _lock = threading.Lock()
    _entered = 0  # number of threads that have entered; the replacements are correct in all threads

    def __enter__(self):
        with OwnOps._lock:
            if OwnOps._entered == 0:
                for own in (linear, scaled_dot_product_attention):
                    OwnOps._torchs[own.__name__] = getattr(torch.nn.functional, own.__name__)
                    setattr(torch.nn.functional, own.__name__, own)
                for name, own in OWN_CASTS.items():
                    if name in torch.Tensor.__dict__:
                        OwnOps._torchs_casts[name] = torch.Tensor.__dict__[name]
                    setattr(torch.Tensor, name, own)
            OwnOps._entered += 1

    def __exit__(self, kind, value, traceback):
        with OwnOps._lock:
            OwnOps._entered -= 1
            if OwnOps._entered == 0:
                for name, function in OwnOps._torchs.items():
                    setattr(torch.nn.functional, name, function)
                for name in OWN_CASTS:
                    delattr(torch.Tensor, name)
                for name, method in OwnOps._torchs_casts.items():
                    setattr(torch.Tensor, name, method)


def linear(input, weight, bias=None):
    torchs = OwnOps._torchs["linear"]
    if torch.compiler.is_compiling() or not _are_plain(input, weight, bias) or input.dim() < 3 or input.is_contiguous():
        return torchs(input, weight, bias)
    if torch.is_autocast_enabled(input.device.type):
        if not input.is_cuda:  # autocast has no einsum() there, and memory is not planned
            return torchs(input, weight, bias)
        bias, weight, input = _cast(bias), _cast(weight), _cast(input)
    if input.is_contiguous():  # a cast makes the input contiguous
        return torchs(input, weight, bias)
    return torch.matmul(input, weight.t()).add_(bias)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **others):
    torchs = OwnOps._torchs["scaled_dot_product_attention"]
    masks = [] if attn_mask is None else [attn_mask]
    if torch.compiler.is_compiling() or not (masks or is_causal) or not _are_plain(query, key, value, *masks):
        return torchs(query, key, value, attn_mask, dropout_p, is_causal, **others)
    with _MaskInPlace():
        return torchs(query, key, value, attn_mask, dropout_p, is_causal, **others)


class _MaskInPlace(TorchDispatchMode):
    """Adds a mask to the scores in place, as attention without a fused kernel does without a mode. That attention has
    no other add()."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is not torch.ops.aten.add.Tensor:
            return func(*args, **(kwargs or {}))
        torch.ops.aten.add_.Tensor(*args)
        return torch.ops.aten.detach.default(args[0])  # autograd requires another tensor


def _are_plain(*tensors):
    """Whether torch would compute with the tensors in place without a mode."""
    return all(type(tensor) in (torch.Tensor, torch.nn.Parameter)
               and not torch._C._functorch.is_functorch_wrapped_tensor(tensor) for tensor in tensors)


def _cast(tensor):
    """Casts an argument of linear() as autocast does, from the last to the first: einsum() is in the same list of
    autocast, and is only a view then. The view's base is the cast. The view would be a node of the graph, and would
    change the order in which the gradients of a weight that several calls use are added."""
    viewed = torch.einsum("...->...", tensor)
    if viewed.dtype == tensor.dtype:
        return tensor
    return viewed._base if viewed._is_view() else viewed


class Forward:
    """The forward of a module under a policy: `region` runs in place of the module's own. The module holds this object,
    so this object does not hold the module: a module, or a copy, is freed with the last reference of the program. Like a
    bound method, a copy belongs to the module's copy; a shallow copy of the module (copy.copy) gets an object of its own
    at the first call. Pickles are forwards without the policy."""

    def __init__(self, region, module, replaced=None):
        """`replaced`: another patch of the instance, which then runs inside."""
        self.region = region
        self.replaced = replaced
        self._module = weakref.ref(module)

    __name__ = "forward"  # for pickles of a method that accelerate makes

    @property
    def __signature__(self):
        module = self._module()
        is_method = _is_bound_to(module, self)
        return inspect.signature(type(module).forward if is_method else self.region.forward_of(module, self.replaced))

    @property
    def __globals__(self):
        raise _NotScripted(f"module {self.region.policy.fqn} has a policy, and torch.jit.script() takes only modules "
                           f"without: {_REMOVE}")

    def __call__(self, *args, **kwargs):
        module, replaced = self._module(), self.replaced
        if args and isinstance(args[0], torch.nn.Module) and _is_bound_to(args[0], self):
            module, *args = args
            if replaced is not None and inspect.unwrap(replaced) is type(module).forward:
                replaced = None
        if not torch.compiler.is_compiling():
            called = _called_module(sys._getframe(1))
            if called is not None and called is not module and called.__dict__.get("forward") is self:
                if "_is_replica" in called.__dict__:
                    self.region.refuse("DataParallel is not supported: use fully_shard (FSDP2) or "
                                       "DistributedDataParallel, or none")
                called.forward = Forward(self.region, called, self.replaced)
                return called.forward(*args, **kwargs)
            self.region.ran = True
        if module is None:
            raise ReferenceError(f"module {self.region.policy.fqn} is gone, and only the forward is left: keep the module, "
                                 "too")
        # The program may have wrapped this object. A trace (SummaryWriter.add_graph) and an export have no backward.
        if self.region.is_removed_from(module) or torch.jit.is_tracing() or _is_exporting():
            return self.region.forward_of(module, replaced)(*args, **kwargs)
        if not torch.compiler.is_compiling() and torch.is_grad_enabled() and in_make_fx():
            raise PolicyError(f"module {self.region.policy.fqn} has a policy, and make_fx() traces no checkpoint: {_REMOVE}")
        return self.region.run(module, args, kwargs, replaced)

    def __deepcopy__(self, memo):
        return Forward(self.region, copy.deepcopy(self._module(), memo), copy.deepcopy(self.replaced, memo))

    def __reduce__(self):
        return (getattr, (self._module(), "forward")) if self.replaced is None else (_itself, (self.replaced,))


def _is_exporting():
    """Returns whether torch.export runs this code. Dynamo takes is_exporting() for true in each graph."""
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()


_REMOVE = "call torch_headroom.remove(model) first, and torch_headroom.apply() again to train"


class _NotScripted(PolicyError, AttributeError):
    """For code that asks a forward for the globals of a function: only torch.jit.script() needs an answer."""


def _is_bound_to(module, forward):
    """Returns whether accelerate has bound a Forward to the module, as a function of the module's class: accelerate does
    so to take off the module's wrappers, and would with `__wrapped__` take off the policy."""
    return getattr(module.__dict__.get("forward"), "__func__", None) is forward


def _called_module(frame):
    """Returns the module that is called, if `frame` is of a call in torch.nn.Module; None: of something else. Other
    frames live longer, and would keep what `f_locals` returns."""
    if frame.f_code.co_filename != torch.nn.modules.module.__file__:
        return None
    called = frame.f_locals.get("self")
    return None if called is None or is_compiled(called) else called


def _itself(value):
    return value


_around_graphs = {}  # id of a module -> weak reference to the Forward around the module's graph


def note_around_graph(module, forward):
    """Notes which Forward is around the module's graph, until that Forward is gone. A copy of the module has no note."""
    number = id(module)
    _around_graphs[number] = weakref.ref(forward, lambda _: _around_graphs.pop(number, None))


def region_of(module):
    """Returns what a policy runs in place of the module's own forward; None: the module has no policy."""
    forward = module.__dict__.get("forward") if not is_compiled(module) else None  # the module inside has the policy
    if id(module) in _around_graphs:
        forward = _around_graphs[id(module)]()
    return forward.region if isinstance(forward, Forward) else None


def uses_of(op, args, kwargs):
    """Returns the arguments of an op on which the results depend, and the arguments that the op changes in place.
    Results do not depend on what the op changes, unless the op also returns another tensor (a fake quantization that
    updates a range). Batch normalisation in training updates running statistics and does not use the statistics. Views
    compute nothing."""
    schema = getattr(op, "_schema", None)
    if schema is None:  # a higher-order op
        return (args, kwargs), ()
    results = [value.alias_info for value in schema.returns]
    if results and all(alias is not None and not alias.is_write for alias in results):
        return (), ()
    makes_others = any(alias is None for alias in results)
    in_training = _updates_statistics(op, schema, args, kwargs)
    computed, changed = [], []
    for argument, value in (*zip(schema.arguments, args), *_named(schema, kwargs)):
        statistic = in_training and argument.name.startswith("running_")
        changes = statistic or (argument.alias_info is not None and argument.alias_info.is_write)
        if changes:
            changed.append(value)
        if not changes or (makes_others and not statistic):
            computed.append(value)
    return computed, changed


def _named(schema, kwargs):
    return [(argument, kwargs[argument.name]) for argument in schema.arguments if argument.name in kwargs]


_UPDATING_STATISTICS = frozenset((
    "_batch_norm_with_update", "_native_batch_norm_legit", "batch_norm_gather_stats",
    "batch_norm_gather_stats_with_counts", "batch_norm_update_stats", "cudnn_batch_norm", "miopen_batch_norm",
    "native_batch_norm"))  # as in core/trace/graph_ops.cpp


def _updates_statistics(op, schema, args, kwargs):
    if op.namespace != "aten" or op._schema.name.partition("::")[2] not in _UPDATING_STATISTICS:
        return False
    place = next((i for i, argument in enumerate(schema.arguments) if argument.name == "training"), None)
    return place is None or bool(args[place] if place < len(args) else kwargs.get("training"))
