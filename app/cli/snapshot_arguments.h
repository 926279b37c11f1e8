// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/import.h"

#include <string>

namespace CLI {
class App;
}

namespace headroom::cli {

/// The arguments that select a part of a memory snapshot.
struct SnapshotArguments
{
    std::string device; ///< empty: the device with most events
    std::string from;
    std::string to;
    bool any() const { return !device.empty() || !from.empty() || !to.empty(); }
};
void addSnapshotArguments(CLI::App& command, SnapshotArguments& arguments);
Result<ImportRequest> importRequest(const SnapshotArguments& arguments);

} // namespace headroom::cli
