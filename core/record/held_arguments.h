// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom {

/// Storages of tensors inside objects among the arguments of module calls, and in attributes that a call replaces. A
/// checkpoint of a module holds the storages at those places that its forward reads
/// (packaging/python/torch_headroom/_apply/held.py). A place counts as read when an op of any of the
/// module's calls reads its storage.
class HeldArguments
{
public:
    /// Adds a storage, between the start of the call and leave(). `place` numbers its position among the arguments; a
    /// negative number: a checkpoint holds it in any case.
    void add(CallId call, ModuleId module, StorageId storage, std::int64_t place);
    /// Takes back what add() added for a call at a place.
    void remove(CallId call, std::int64_t place);
    /// Marks the storage as read by an op.
    void read(StorageId storage);
    void leave(CallId call);

    /// Returns the storages that checkpoints of these calls hold, those of one call in the order of add().
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

} // namespace headroom
