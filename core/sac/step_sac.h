// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/sac/module_records.h"
#include "core/sac/op_facts.h"
#include "core/sac/sac_stats.h"

#include <vector>

namespace headroom {

/// SACEstimator on a recorded step: computes the SacStats of any module.
class StepSac
{
public:
    StepSac(const StepTrace& trace, const ModuleRecords& records);

    /// Whether the module has children; a leaf has no statistics.
    bool hasChildren(ModuleId module) const { return hasChildren_[module.value]; }

    /// The ops of the module's SacStats: the counted ops of the last call, in order; empty if the module did not run.
    std::vector<OpId> ops(ModuleId module) const;

    enum class Names { with, without };
    /// The SacStats of a module. Names::without leaves funcNames empty, which the trade-off does not need.
    SacStats stats(ModuleId module, Names names) const;

private:
    bool counted(OpId op) const;
    bool random(OpId op) const;
    std::uint32_t savedSince(OpId op) const;
    OpId inPlaceParent(OpId op, std::uint32_t firstOp) const;
    void indexOutputs();

    const StepTrace& trace_;
    const ModuleRecords& records_;
    OpNames names_;
    std::vector<bool> hasChildren_;
    /// By storage: the ops with a result in the storage; empty if no op is in place.
    std::vector<std::uint32_t> outputFirst_;
    std::vector<OpId> outputOps_;
};

} // namespace headroom
