// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/timeline/timeline.h"
#include "core/trace/step_trace_builder.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace headroom {

/// A step written down by hand, event by event, in units of one allocator block (512 bytes), so that every total can be
/// checked on paper. Ops take 1 ms unless said otherwise.
class HandStep
{
public:
    StepTraceBuilder builder;

    /// Modules: 0 Net, 1 Net.block, 2 Net.other. Alive when the step begins: 14 units.
    HandStep();

    StorageId weight; ///< 10 units, parameter
    StorageId batch; ///< 4 units, input
    static constexpr ModuleId net{0}, block{1}, other{2};

    /// An op that makes one storage for each size; what it makes is held by the program.
    std::vector<StorageId> op(const std::string& name, std::initializer_list<Bytes> units,
                              std::initializer_list<StorageId> mutated = {}, double ms = 1);
    StorageId make(const std::string& name, Bytes units, double ms = 1) { return op(name, {units}, {}, ms).front(); }

    void enter(ModuleId module, std::initializer_list<StorageId> arguments);
    void exit();
    PackId pack(StorageId storage) { return builder.pack(storage, {}); }
    void unpack(std::initializer_list<PackId> packs);
    void unpackEnd(std::initializer_list<PackId> packs);
    void release(std::initializer_list<PackId> packs);
    void free(std::initializer_list<StorageId> storages);

    StepTracePtr finish(); ///< throws when it is not a valid step

private:
    std::vector<CallId> calls_;
    std::vector<ModuleId> modules_{net}; ///< whose calls they are; outside of all the model
};

/// Live units: at the start, then after each change; of these the numbers [begin, end).
std::vector<Bytes> totals(const Timeline& timeline);
std::vector<Bytes> totals(const Timeline& timeline, std::ptrdiff_t begin, std::ptrdiff_t end);

/// The step's timeline under a plan that must be possible; what ModuleEffects says of its modules has to agree.
Timeline predicted(const StepTracePtr& trace, const CheckpointPlan& plan = {});

} // namespace headroom
