// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/module_call.h"

#include <utility>

namespace headroom {
namespace {

thread_local ModuleCallHandler* current = nullptr;

} // namespace

ModuleCallHandler* ModuleCallHandler::of(ModuleId module)
{
    return current && current->handles(module) ? current : nullptr;
}

ModuleCallScope::ModuleCallScope(ModuleCallHandler* handler)
    : outer_(std::exchange(current, handler))
{
}

ModuleCallScope::~ModuleCallScope()
{
    current = outer_;
}

} // namespace headroom
