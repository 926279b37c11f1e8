// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/recorder.h"

#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace headroom {

/// Boxed arguments or results: tensors, lists, dictionaries, numbers.
using Values = std::vector<c10::IValue>;

/// The forward of a module, or any region of a program. It may run again in backward, in autograd's thread.
using RegionFunction = std::function<Values(const Values& inputs)>;

/// What a handler of module calls refuses: one sentence for the user.
class ModuleCallError : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

/// A module's call as the Recorder is told of it, from its entry to its end; also when an exception leaves it.
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

/// Does something about the calls of chosen modules, such as checkpointing them. Every source of models asks for it at
/// every module call, so that it works for all of them:
///
///     if (ModuleCallHandler* handler = ModuleCallHandler::of(module)) {
///         const auto open = handler->open(module, {arguments}, forward);
///         ... = forward({arguments});
///         open->complete();
///     }
///
/// `forward` runs the module from its arguments alone, announces it, and does not ask for a handler of this module
/// again. Parameters and constants may be captured; tensors that the caller computed must be arguments.
class ModuleCallHandler
{
public:
    /// A call that runs; it ends with this object.
    class Open
    {
    public:
        Open() = default;
        virtual ~Open() = default;
        Open(const Open&) = delete;
        Open& operator=(const Open&) = delete;
        /// The forward has returned; not called when it threw.
        virtual void complete() = 0;
    };

    virtual ~ModuleCallHandler() = default;
    virtual bool handles(ModuleId module) const = 0;
    virtual std::unique_ptr<Open> open(ModuleId module, Values arguments, RegionFunction forward) = 0;

    /// The handler of this thread, if there is one for the module.
    static ModuleCallHandler* of(ModuleId module);
};

/// Calls of modules in this thread are `handler`'s while it lives; null: nobody's.
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
