// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/subclass_calls.h"

#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/PyInterpreterHooks.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/version.h>

namespace headroom {
namespace {

/// Number of nested ops that tensor subclasses handle in this thread.
thread_local int subclassCalls = 0;

/// A call of Python. Python asks the dispatch modes first, and each mode runs without the modes before. Python asks a
/// subclass when no mode is active.
class PythonCall
{
public:
    PythonCall() { subclassCalls += asksSubclass_ ? 1 : 0; }
    ~PythonCall() { subclassCalls -= asksSubclass_ ? 1 : 0; }
    PythonCall(const PythonCall&) = delete;
    PythonCall& operator=(const PythonCall&) = delete;

private:
    bool asksSubclass_ = c10::impl::TorchDispatchModeTLS::stack_len() == 0;
};

#if TORCH_VERSION_MINOR >= 13

/// libtorch's interface to Python, with a count of the calls of dispatch(): dispatch() asks subclasses.
class CountingInterpreter final : public c10::impl::PyInterpreterVTable
{
    using Impl = c10::TensorImpl;
    using Type = c10::DeviceType;
    using Op = c10::OperatorHandle;
    using Keys = c10::DispatchKeySet;
    using Stack = torch::jit::Stack;

public:
    explicit CountingInterpreter(const PyInterpreterVTable& python)
        : python_(python)
    {
    }

    void dispatch(const Op& op, Stack* stack) const override
    {
        const PythonCall call;
        python_.dispatch(op, stack);
    }

#define HEADROOM_FORWARD(Result, name, parameters, arguments)                                                          \
    Result name parameters const override                                                                              \
    {                                                                                                                  \
        return python_.name arguments;                                                                                 \
    }
    HEADROOM_FORWARD(std::string, name, (), ())
    HEADROOM_FORWARD(void, incref, (PyObject * object), (object))
    HEADROOM_FORWARD(void, decref, (PyObject * object), (object))
    HEADROOM_FORWARD(bool, try_incref, (const c10::impl::PyObjectSlot& slot), (slot))
    HEADROOM_FORWARD(std::size_t, refcnt, (PyObject * object), (object))
    HEADROOM_FORWARD(c10::intrusive_ptr<Impl>, detach, (const Impl* self), (self))
    HEADROOM_FORWARD(void, reportErrorCallback, (PyObject * callback, c10::DispatchKey key), (callback, key))
    HEADROOM_FORWARD(void, python_op_registration_trampoline,
                     (const Op& op, c10::DispatchKey key, Keys keys, Stack* stack, bool withKeys, bool withOp),
                     (op, key, keys, stack, withKeys, withOp))
    HEADROOM_FORWARD(void, throw_abstract_impl_not_imported_error,
                     (std::string op, const char* module, const char* context), (std::move(op), module, context))
    HEADROOM_FORWARD(void, python_dispatcher, (const Op& op, Keys keys, Stack* stack), (op, keys, stack))
    HEADROOM_FORWARD(bool, is_contiguous, (const Impl* self, at::MemoryFormat format), (self, format))
    HEADROOM_FORWARD(c10::SymBool, sym_is_contiguous, (const Impl* self, at::MemoryFormat format), (self, format))
    HEADROOM_FORWARD(bool, is_strides_like, (const Impl* self, at::MemoryFormat format), (self, format))
    HEADROOM_FORWARD(bool, is_non_overlapping_and_dense, (const Impl* self), (self))
    HEADROOM_FORWARD(c10::Device, device, (const Impl* self), (self))
    HEADROOM_FORWARD(std::int64_t, dim, (const Impl* self), (self))
    HEADROOM_FORWARD(c10::IntArrayRef, strides, (const Impl* self), (self))
    HEADROOM_FORWARD(c10::IntArrayRef, sizes, (const Impl* self), (self))
    HEADROOM_FORWARD(c10::SymIntArrayRef, sym_sizes, (const Impl* self), (self))
    HEADROOM_FORWARD(c10::Layout, layout, (const Impl* self), (self))
    HEADROOM_FORWARD(std::int64_t, numel, (const Impl* self), (self))
    HEADROOM_FORWARD(c10::SymInt, sym_numel, (const Impl* self), (self))
    HEADROOM_FORWARD(c10::SymIntArrayRef, sym_strides, (const Impl* self), (self))
    HEADROOM_FORWARD(c10::SymInt, sym_storage_offset, (const Impl* self), (self))
    HEADROOM_FORWARD(void, trace_gpu_event_creation, (Type type, std::uintptr_t event), (type, event))
    HEADROOM_FORWARD(void, trace_gpu_event_deletion, (Type type, std::uintptr_t event), (type, event))
    HEADROOM_FORWARD(void, trace_gpu_event_record, (Type type, std::uintptr_t event, std::uintptr_t stream),
                     (type, event, stream))
    HEADROOM_FORWARD(void, trace_gpu_event_wait, (Type type, std::uintptr_t event, std::uintptr_t stream),
                     (type, event, stream))
    HEADROOM_FORWARD(void, trace_gpu_memory_allocation, (Type type, std::uintptr_t address), (type, address))
    HEADROOM_FORWARD(void, trace_gpu_memory_deallocation, (Type type, std::uintptr_t address), (type, address))
    HEADROOM_FORWARD(void, trace_gpu_stream_creation, (Type type, std::uintptr_t stream), (type, stream))
    HEADROOM_FORWARD(void, trace_gpu_device_synchronization, (Type type), (type))
    HEADROOM_FORWARD(void, trace_gpu_stream_synchronization, (Type type, std::uintptr_t stream), (type, stream))
    HEADROOM_FORWARD(void, trace_gpu_event_synchronization, (Type type, std::uintptr_t event), (type, event))
    HEADROOM_FORWARD(void, reset_backward_hooks, (const Impl* self), (self))
#undef HEADROOM_FORWARD

private:
    const PyInterpreterVTable& python_;
};

#endif

} // namespace

void callPython(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    const PythonCall call;
    (*c10::impl::getGlobalPyInterpreter())->dispatch(op, stack);
}

bool isInSubclass()
{
    return subclassCalls > 0;
}

void countSubclassCalls()
{
#if TORCH_VERSION_MINOR >= 13
    static const bool counts = [] {
        c10::impl::PyInterpreter* python = c10::impl::getGlobalPyInterpreter();
        python->vtable_ = new CountingInterpreter(**python); // never destroyed: tensors use the table after main()
        return true;
    }();
    (void)counts;
#endif
}

} // namespace headroom
