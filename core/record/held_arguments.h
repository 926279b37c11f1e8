// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom {

/// Storages inside of objects among the arguments of module calls. A checkpoint of a module holds those at the places
/// that its forward reads (packaging/python/torch_headroom/_arguments.py): a place counts as read when an op of any of
/// the module's calls reads what is there.
class HeldArguments
{
public:
    /// `place` numbers where among the arguments the storage is; negative: it is held in any case. Between the begin of
    /// the call and leave().
    void add(CallId call, ModuleId module, StorageId storage, std::int64_t place);
    /// An op takes it.
    void read(StorageId storage);
    void leave(CallId call);

    /// What checkpoints hold, in the order of add().
    std::vector<std::pair<CallId, StorageId>> held() const;

private:
    struct Entry
    {
        CallId call;
        ModuleId module;
        StorageId storage;
        std::int64_t place = 0;
    };

    std::vector<Entry> entries_;
    std::unordered_multimap<StorageId, std::size_t> unread_; ///< storage -> entry, of the calls that run
    std::set<std::pair<ModuleId, std::int64_t>> read_;
};

} // namespace headroom
