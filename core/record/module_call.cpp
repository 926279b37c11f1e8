// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/module_call.h"

#include <utility>

namespace headroom {

void HeldArguments::add(CallId call, ModuleId module, StorageId storage, std::int64_t place)
{
    if (place >= 0)
        unread_.insert({storage, {call, {module, place}}});
    entries_[call].push_back({storage, {module, place}});
}

void HeldArguments::remove(CallId call, std::int64_t place)
{
    if (const auto found = entries_.find(call); found != entries_.end())
        std::erase_if(found->second, [place](const Entry& entry) { return entry.place.second == place; });
}

void HeldArguments::read(StorageId storage)
{
    const auto [first, last] = unread_.equal_range(storage);
    for (auto found = first; found != last; ++found)
        read_.insert(found->second.place);
    unread_.erase(first, last);
}

void HeldArguments::leave(CallId call)
{
    std::erase_if(unread_, [call](const auto& entry) { return entry.second.call == call; });
}

std::vector<std::pair<CallId, StorageId>> HeldArguments::held() const
{
    std::vector<std::pair<CallId, StorageId>> held;
    for (const auto& [call, entries] : entries_)
        for (const Entry& entry : entries)
            if (entry.place.second < 0 || read_.contains(entry.place))
                held.emplace_back(call, entry.storage);
    return held;
}

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
