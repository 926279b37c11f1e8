// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/obstacles.h"

#include <ostream>

namespace headroom::cli {
namespace {

constexpr const char* wholeReason
    = "ops run inside of tensor subclasses there, where PyTorch's selective checkpointing keeps no single ones";

} // namespace

void print(std::span<const NotCheckpointable> modules, std::ostream& out)
{
    if (modules.empty())
        return;
    out << "Left out      " << modules.front().module << " cannot be checkpointed: " << modules.front().reason << '\n';
    if (modules.size() > 1)
        out << "              " << modules.size() - 1 << " more cannot either; --json names them.\n";
}

void print(std::span<const WholeOnly> modules, std::ostream& out)
{
    if (modules.empty())
        return;
    out << "Whole only    " << modules.front().module << " is recomputed as a whole or not at all: " << wholeReason
        << '\n';
    if (modules.size() > 1)
        out << "              " << modules.size() - 1 << " more are, too; --json names them.\n";
}

void addTo(Json& json, std::span<const NotCheckpointable> modules)
{
    for (const auto& [module, reason] : modules)
        json["not_checkpointable"].push_back({{"module", module}, {"reason", reason}});
}

void addTo(Json& json, std::span<const WholeOnly> modules)
{
    for (const WholeOnly& whole : modules)
        json["whole_only"].push_back({{"module", whole.module}, {"reason", wholeReason}});
}

} // namespace headroom::cli
