// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/held_arguments.h"

namespace headroom {

void HeldArguments::add(CallId call, ModuleId module, StorageId storage, std::int64_t place)
{
    if (place >= 0)
        unread_.emplace(storage, entries_.size());
    entries_.push_back({call, module, storage, place});
}

void HeldArguments::read(StorageId storage)
{
    const auto [first, last] = unread_.equal_range(storage);
    for (auto found = first; found != last; ++found)
        read_.emplace(entries_[found->second].module, entries_[found->second].place);
    unread_.erase(first, last);
}

void HeldArguments::leave(CallId call)
{
    std::erase_if(unread_, [&](const auto& entry) { return entries_[entry.second].call == call; });
}

std::vector<std::pair<CallId, StorageId>> HeldArguments::held() const
{
    std::vector<std::pair<CallId, StorageId>> held;
    for (const Entry& entry : entries_)
        if (entry.place < 0 || read_.contains({entry.module, entry.place}))
            held.emplace_back(entry.call, entry.storage);
    return held;
}

} // namespace headroom
