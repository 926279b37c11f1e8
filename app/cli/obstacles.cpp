// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/obstacles.h"

#include <ostream>

namespace headroom::cli {

void print(std::span<const NotCheckpointable> modules, std::ostream& out)
{
    if (modules.empty())
        return;
    out << "Left out      " << modules.front().module << " cannot be checkpointed: " << modules.front().reason << '\n';
    if (modules.size() > 1)
        out << "              " << modules.size() - 1 << " more cannot either; --json names them.\n";
}

void addTo(Json& json, std::span<const NotCheckpointable> modules)
{
    for (const auto& [module, reason] : modules)
        json["not_checkpointable"].push_back({{"module", module}, {"reason", reason}});
}

} // namespace headroom::cli
