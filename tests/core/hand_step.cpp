// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/hand_step.h"

#include "core/predict/module_memory.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace headroom {

HandStep::HandStep()
{
    builder.addModule("Net", "Net", {});
    builder.addModule("Net.block", "Block", net);
    builder.addModule("Net.other", "Block", net);
    weight = builder.alloc(10 * allocationGranularity, Category::parameter, {});
    batch = builder.alloc(4 * allocationGranularity, Category::input, {});
    builder.mark(Mark::stepBegin);
}

std::vector<StorageId> HandStep::op(const std::string& name, std::initializer_list<Bytes> units,
                                    std::initializer_list<StorageId> mutated, double ms)
{
    StepTraceBuilder::Op description;
    description.name = builder.string(name);
    description.module = modules_.back();
    const OpId id = builder.beginOp(description);
    std::vector<StorageId> outputs;
    for (const Bytes size : units)
        outputs.push_back(builder.alloc(size * allocationGranularity, Category::activation, id));
    StepTraceBuilder::OpResult result;
    result.ms = ms;
    const std::vector<StorageId> aliases(mutated);
    result.outputs = outputs.empty() ? aliases : outputs;
    result.mutated = aliases;
    builder.endOp(id, result);
    return outputs;
}

void HandStep::enter(ModuleId module, std::initializer_list<StorageId> arguments)
{
    calls_.push_back(builder.enter(module, std::vector(arguments)));
    modules_.push_back(module);
}

void HandStep::exit()
{
    builder.exit(calls_.back(), {});
    calls_.pop_back();
    modules_.pop_back();
}

void HandStep::unpack(std::initializer_list<PackId> packs)
{
    for (const PackId pack : packs)
        builder.unpack(pack);
}

void HandStep::unpackEnd(std::initializer_list<PackId> packs)
{
    for (const PackId pack : packs)
        builder.unpackEnd(pack);
}

void HandStep::release(std::initializer_list<PackId> packs)
{
    for (const PackId pack : packs)
        builder.release(pack);
}

void HandStep::free(std::initializer_list<StorageId> storages)
{
    for (const StorageId storage : storages)
        builder.free(storage);
}

StepTracePtr HandStep::finish()
{
    auto result = builder.finish();
    if (!result)
        throw std::runtime_error(result.error().message);
    return *result;
}

std::vector<Bytes> totals(const Timeline& timeline)
{
    Bytes now = total(timeline.start);
    std::vector<Bytes> result{now / allocationGranularity};
    for (const MemoryChange& change : timeline.changes) {
        now += change.delta;
        result.push_back(now / allocationGranularity);
    }
    return result;
}

std::vector<Bytes> totals(const Timeline& timeline, std::ptrdiff_t begin, std::ptrdiff_t end)
{
    const std::vector<Bytes> all = totals(timeline);
    return {all.begin() + begin, all.begin() + end};
}

namespace {

/// What the modules are said to take is what the step takes.
void expectModulesAddUp(const StepModel& model, const CheckpointPlan& plan, const Timeline& timeline)
{
    const std::vector<ModuleEffect> effects = ModuleEffects(model).of(plan).value();
    EXPECT_NEAR(effects[0].recomputeMs, timeline.recomputeMs, 1e-9);
    double outermost = 0;
    for (const CheckpointRegion& region : plan)
        outermost += effects[region.module.value].recomputeMs;
    EXPECT_NEAR(outermost, timeline.recomputeMs, 1e-9);
}

} // namespace

Timeline predicted(const StepTracePtr& trace, const CheckpointPlan& plan)
{
    const StepModel model(trace);
    auto result = model.predict(plan);
    if (!result)
        throw std::runtime_error(result.error().message);
    expectModulesAddUp(model, plan, *result);
    return *std::move(result);
}

} // namespace headroom
