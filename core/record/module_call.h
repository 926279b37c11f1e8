// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"
#include "core/record/recorder.h"

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom {

/// Storages of tensors inside objects among the arguments of module calls, and in attributes that a call replaces. A
/// checkpoint of a module holds the storages at the places that the forward reads
/// (packaging/python/torch_headroom/_apply/held.py). A place counts as read when an op of any call of the module reads
/// the storage there.
class HeldArguments
{
public:
    /// Adds a storage, between the start of the call and leave(). `place` numbers the position among the arguments; a
    /// negative number: a checkpoint holds the storage in any case.
    void add(CallId call, ModuleId module, StorageId storage, std::int64_t place);
    /// Takes back what add() added for a call at a place.
    void remove(CallId call, std::int64_t place);
    /// Marks the storage as read by an op.
    void read(StorageId storage);
    void leave(CallId call);

    /// Returns the storages that checkpoints of the calls hold; within a call in the order of add().
    std::vector<std::pair<CallId, StorageId>> held() const;

private:
    using Place = std::pair<ModuleId, std::int64_t>;

    struct Entry
    {
        StorageId storage;
        Place place;
    };
    struct Reader
    {
        CallId call;
        Place place;
    };

    std::map<CallId, std::vector<Entry>> entries_;
    std::unordered_multimap<StorageId, Reader> unread_; ///< of the calls that run
    std::set<Place> read_;
};

/// Boxed arguments or results: tensors, lists, dictionaries, numbers.
using Values = std::vector<c10::IValue>;

/// The forward of a module, or any region of a program. Backward may recompute the region, on autograd's thread.
using RegionFunction = std::function<Values(const Values& inputs)>;

/// Thrown when a handler of module calls refuses a call; the message is a sentence for the user.
class ModuleCallError : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

/// Reports a module call to the Recorder: the entry at construction, and the end in returns(), or in the destructor if
/// an exception leaves the call.
class AnnouncedCall
{
public:
    AnnouncedCall(ModuleId module, at::ArrayRef<at::Tensor> arguments)
        : call_(Recorder::enter(module, arguments))
    {
    }
    ~AnnouncedCall()
    {
        if (call_.valid())
            Recorder::exit(call_, {});
    }
    AnnouncedCall(const AnnouncedCall&) = delete;
    AnnouncedCall& operator=(const AnnouncedCall&) = delete;

    void returns(at::ArrayRef<at::Tensor> results)
    {
        Recorder::exit(call_, results);
        call_ = {};
    }

private:
    CallId call_;
};

/// Changes how calls of chosen modules run, for example by checkpointing. Every model source queries the handler at
/// every module call:
///
///     if (ModuleCallHandler* handler = ModuleCallHandler::of(module)) {
///         const auto open = handler->open(module, {arguments}, forward);
///         ... = forward({arguments});
///         open->complete();
///     }
///
/// `forward` runs the module from the arguments alone, reports the call, and does not query the handler for this module
/// again. `forward` may capture parameters and constants; tensors that the caller computed must be arguments.
class ModuleCallHandler
{
public:
    /// A running call. The call ends with this object.
    class Open
    {
    public:
        Open() = default;
        virtual ~Open() = default;
        Open(const Open&) = delete;
        Open& operator=(const Open&) = delete;
        /// Called after the forward has returned; not called when it threw.
        virtual void complete() = 0;
    };

    virtual ~ModuleCallHandler() = default;
    virtual bool handles(ModuleId module) const = 0;
    virtual std::unique_ptr<Open> open(ModuleId module, Values arguments, RegionFunction forward) = 0;

    /// Returns this thread's handler if the handler handles the module; otherwise null.
    static ModuleCallHandler* of(ModuleId module);
};

/// Sets the handler for module calls of this thread while the scope lives; null: none.
class ModuleCallScope
{
public:
    explicit ModuleCallScope(ModuleCallHandler* handler);
    ~ModuleCallScope();
    ModuleCallScope(const ModuleCallScope&) = delete;
    ModuleCallScope& operator=(const ModuleCallScope&) = delete;

private:
    ModuleCallHandler* outer_;
};

} // namespace headroom
