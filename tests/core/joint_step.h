// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace_builder.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace headroom {

/// A step with what ops read, written down by hand in units of one allocator block. Ops take 1 ms, their results are
/// held by the program until free().
class JointStep
{
public:
    StepTraceBuilder builder;
    StorageId weight; ///< 10 units, parameter
    StorageId batch; ///< 4 units, input

    JointStep()
    {
        builder.addModule("Net", "Net", {});
        weight = builder.alloc(10 * allocationGranularity, Category::parameter, {});
        batch = builder.alloc(4 * allocationGranularity, Category::input, {});
        builder.mark(Mark::stepBegin);
    }

    struct Facts
    {
        std::vector<StorageId> mutated = {};
        std::uint16_t flags = 0;
        double flops = 0;
        Phase phase = Phase::forward;
    };

    std::vector<StorageId> ops(const std::string& name, const std::vector<StorageId>& inputs,
                               const std::vector<Bytes>& units, const Facts& facts)
    {
        StepTraceBuilder::Op description;
        description.name = builder.string(name);
        description.module = ModuleId(0);
        description.phase = facts.phase;
        if (facts.phase == Phase::forward && !calls_.empty())
            description.call = calls_.back();
        last = builder.beginOp(description);
        std::vector<StorageId> outputs;
        for (const Bytes size : units)
            outputs.push_back(builder.alloc(size * allocationGranularity, Category::activation, last));
        StepTraceBuilder::OpResult result;
        result.flags = facts.flags;
        result.flops = facts.flops;
        result.ms = 1;
        result.inputs = inputs;
        const bool aliases = outputs.empty() && !inputs.empty();
        const std::vector<StorageId> reported = aliases ? std::vector{inputs.front()} : outputs;
        result.outputs = reported;
        result.mutated = facts.mutated;
        builder.endOp(last, result);
        return outputs;
    }

    /// A forward op with one result; a view or an in-place op for 0 units.
    StorageId op(const std::string& name, const std::vector<StorageId>& inputs, Bytes units, const Facts& facts)
    {
        const auto outputs = ops(name, inputs, units > 0 ? std::vector{units} : std::vector<Bytes>{}, facts);
        return outputs.empty() ? inputs.front() : outputs.front();
    }
    StorageId op(const std::string& name, const std::vector<StorageId>& inputs, Bytes units)
    {
        return op(name, inputs, units, Facts());
    }
    StorageId matmul(const std::vector<StorageId>& inputs, Bytes units, double flops = 1e9)
    {
        return op("aten.mm.default", inputs, units, {.flops = flops});
    }

    void enter(ModuleId module, const std::vector<StorageId>& arguments)
    {
        calls_.push_back(builder.enter(module, arguments));
    }
    void exit()
    {
        builder.exit(calls_.back(), {});
        calls_.pop_back();
    }

    PackId pack(StorageId storage) { return builder.pack(storage, last); }

    void backwardBegins(StorageId loss)
    {
        builder.mark(Mark::forwardEnd);
        gradient = ops("aten.ones_like.default", {loss}, {1}, {.phase = Phase::backward}).front();
    }
    /// A node of backward: asks for what was packed, and makes the next gradient.
    void node(const std::string& name, const std::vector<PackId>& packs, const std::vector<StorageId>& reads,
              Bytes units)
    {
        for (const PackId pack : packs)
            builder.unpack(pack);
        std::vector<StorageId> inputs{gradient};
        inputs.insert(inputs.end(), reads.begin(), reads.end());
        const StorageId next = ops(name, inputs, {units}, {.phase = Phase::backward}).front();
        for (const PackId pack : packs)
            builder.unpackEnd(pack);
        builder.free(gradient);
        gradient = next;
        for (const PackId pack : packs)
            builder.release(pack);
    }

    StepTracePtr finish()
    {
        builder.free(gradient);
        builder.mark(Mark::backwardEnd);
        auto result = builder.finish();
        if (!result)
            throw std::runtime_error(result.error().message);
        return *result;
    }

    OpId last; ///< the last op
    StorageId gradient;

private:
    std::vector<CallId> calls_;
};

/// a = mm(batch, weight), 8 units; b = gelu(a), 8 units; backward asks for b, then for a.
struct TwoOps
{
    StorageId a, b;
    StepTracePtr trace;

    /// `between` gets the step and a when a was made.
    template <class Between>
    explicit TwoOps(Between between)
    {
        JointStep step;
        a = step.matmul({step.batch, step.weight}, 8);
        between(step, a);
        const PackId pa = step.pack(a);
        b = step.op("aten.gelu.default", {a}, 8);
        const PackId pb = step.pack(b);
        step.builder.free(a);
        const StorageId loss = step.op("aten.sum.default", {b}, 1);
        step.builder.free(b);
        step.backwardBegins(loss);
        step.node("aten.mm.default", {pb}, {b}, 8);
        step.node("aten.gelu_backward.default", {pa}, {a}, 8);
        step.builder.free(loss);
        trace = step.finish();
    }
    TwoOps()
        : TwoOps([](JointStep&, StorageId) {})
    {
    }
};

} // namespace headroom
