// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/synthetic_tape.h"

#include <algorithm>
#include <utility>

namespace headroom {

namespace {

double msOf(Bytes bytes, double flops)
{
    constexpr double bytesPerMs = 2e9;
    constexpr double flopsPerMs = 1e11;
    return std::max(static_cast<double>(bytes) / bytesPerMs, flops / flopsPerMs);
}

StepTraceBuilder::OpResult result(const SyntheticTape::Op& spec, std::span<const StorageId> outputs)
{
    Bytes bytes = 0;
    for (const Bytes output : spec.outputs)
        bytes += 2 * output;
    const bool free = (spec.flags & opView) != 0;
    return {DType::float32, spec.flags, bytes, spec.flops, free ? 0 : msOf(bytes, spec.flops), spec.inputs, outputs};
}

} // namespace

std::size_t SyntheticTape::addParameter(ModuleId owner, const char* name, Bytes bytes, bool trained)
{
    Parameter result;
    result.bytes = bytes;
    result.trained = trained;
    result.storage = builder.alloc(bytes, Category::parameter, {});
    builder.addRegistered(owner, name, result.storage, Category::parameter);
    parameters.push_back(result);
    return parameters.size() - 1;
}

void SyntheticTape::enter(ModuleId self, StorageId argument)
{
    const CallId call = builder.enter(self, std::span(&argument, 1));
    Entry entry;
    entry.kind = Entry::Kind::callBegin;
    entry.call = call;
    tape_.push_back(entry);
    callStack_.push_back({call, self});
}

StorageId SyntheticTape::exit(StorageId result)
{
    const CallId call = callStack_.back().first;
    callStack_.pop_back();
    builder.exit(call, std::span(&result, 1));
    Entry entry;
    entry.kind = Entry::Kind::callEnd;
    entry.call = call;
    tape_.push_back(entry);
    return result;
}

/// Runs an op of the forward; returns its first output (its first input when it allocates nothing).
StorageId SyntheticTape::op(const Op& spec)
{
    const auto [call, self] = callStack_.empty() ? std::pair<CallId, ModuleId>({}, root) : callStack_.back();
    // Inputs are packed before the op runs, outputs after it.
    const OpId id(static_cast<std::uint32_t>(builder.opCount()));
    Entry entry;
    for (const StorageId saved : spec.saved)
        entry.packs.push_back(builder.pack(saved, id));
    builder.beginOp({builder.string(spec.name), {}, self, call, {}, Phase::forward});
    std::vector<StorageId> outputs;
    for (const Bytes bytes : spec.outputs)
        outputs.push_back(builder.alloc(bytes, Category::temporary, id));
    const std::vector<StorageId> aliases(spec.inputs.begin(), spec.inputs.begin() + (spec.outputs.empty() ? 1 : 0));
    auto description = result(spec, spec.outputs.empty() ? aliases : outputs);
    if (spec.flags & opInPlace)
        description.mutated = aliases;
    builder.endOp(id, description);
    for (const StorageId output : outputs)
        builder.retype(output, Category::activation);

    entry.op = id;
    entry.node = spec.node;
    if (spec.parameter && parameters[*spec.parameter].trained)
        entry.parameter = spec.parameter;
    entry.gradient = spec.gradient;
    if (spec.savesOutputs)
        for (const StorageId saved : outputs)
            entry.packs.push_back(builder.pack(saved, id));
    if (*spec.node != '\0')
        tape_.push_back(entry);
    // The program keeps the first result; the others were only made to be saved.
    for (std::size_t i = 1; i < outputs.size(); ++i)
        builder.free(outputs[i]);
    return outputs.empty() ? spec.inputs.front() : outputs.front();
}

void SyntheticTape::residualBegin(Bytes bytes)
{
    Entry entry;
    entry.kind = Entry::Kind::residualBegin;
    entry.gradient = bytes;
    tape_.push_back(entry);
}

StorageId SyntheticTape::residualEnd(StorageId x, StorageId branch, Bytes bytes)
{
    const StorageId sum
        = op({.name = "aten.add.Tensor", .node = "", .inputs = {x, branch}, .outputs = {bytes}, .saved = {}});
    builder.free(x);
    builder.free(branch);
    Entry entry;
    entry.kind = Entry::Kind::residualEnd;
    tape_.push_back(entry);
    return sum;
}

std::vector<StorageId> SyntheticTape::backwardOp(const char* name, const Entry& entry, std::vector<Bytes> outputs)
{
    const bool forNode = entry.op.valid();
    const OpId id = builder.beginOp(
        {builder.string(name), forNode ? builder.string(entry.node) : StringId(), root, {}, entry.op, Phase::backward});
    std::vector<StorageId> made;
    for (const Bytes bytes : outputs)
        made.push_back(builder.alloc(bytes, Category::temporary, id));
    Op spec{.name = name, .node = "", .inputs = {}, .outputs = std::move(outputs), .saved = {}};
    if (gradient_.valid())
        spec.inputs.push_back(gradient_);
    builder.endOp(id, result(spec, made));
    return made;
}

void SyntheticTape::runNode(const Entry& entry)
{
    for (const PackId pack : entry.packs)
        builder.unpack(pack);
    std::vector<Bytes> outputs;
    if (entry.gradient > 0)
        outputs.push_back(entry.gradient);
    if (entry.parameter)
        outputs.push_back(parameters[*entry.parameter].bytes);
    std::vector<StorageId> made;
    if (!outputs.empty())
        made = backwardOp("aten.synthetic_backward.default", entry, outputs);
    for (const PackId pack : entry.packs)
        builder.unpackEnd(pack);
    if (!made.empty())
        replaceGradient(entry.gradient > 0 ? made.front() : StorageId());
    for (const PackId pack : entry.packs)
        builder.release(pack);
    if (!entry.parameter)
        return;
    Parameter& parameter = parameters[*entry.parameter];
    if (parameter.gradient.valid()) {
        builder.free(made.back()); // added to that of the micro-batches before
        return;
    }
    parameter.gradient = made.back();
    builder.retype(made.back(), Category::gradient);
}

/// The gradient that backward has just used goes, unless a residual connection still needs it.
void SyntheticTape::replaceGradient(StorageId next)
{
    const bool kept = !residuals_.empty() && residuals_.back() == gradient_;
    if (gradient_.valid() && !kept)
        builder.free(gradient_);
    gradient_ = next;
}

void SyntheticTape::addResidual(const Entry& entry)
{
    const StorageId sum = backwardOp("aten.add.Tensor", Entry(), {entry.gradient}).front();
    const StorageId kept = residuals_.back();
    residuals_.pop_back();
    if (residuals_.empty() || residuals_.back() != kept) // one around it may keep the same
        builder.free(kept);
    replaceGradient(sum);
}

void SyntheticTape::backward(StorageId loss)
{
    gradient_ = backwardOp("aten.ones_like.default", Entry(), {4}).front();
    for (; !tape_.empty(); tape_.pop_back()) {
        const Entry& entry = tape_.back();
        switch (entry.kind) {
        case Entry::Kind::node:
            runNode(entry);
            break;
        case Entry::Kind::callEnd:
            builder.backwardEnter(entry.call);
            break;
        case Entry::Kind::callBegin:
            builder.backwardExit(entry.call);
            break;
        case Entry::Kind::residualEnd:
            residuals_.push_back(gradient_);
            break;
        case Entry::Kind::residualBegin:
            addResidual(entry);
            break;
        }
    }
    replaceGradient({}); // of what needs none
    builder.free(loss);
}

void SyntheticTape::addOptimizerStates()
{
    for (Parameter& p : parameters) {
        if (!p.trained)
            continue;
        p.momentum = builder.alloc(p.bytes, Category::optimizer, {});
        p.variance = builder.alloc(p.bytes, Category::optimizer, {});
    }
}

void SyntheticTape::optimizerStep()
{
    for (const Parameter& p : parameters) {
        if (!p.trained)
            continue;
        const OpId id = builder.beginOp({builder.string("aten.sqrt.default"), {}, root, {}, {}, Phase::optimizer});
        const StorageId temporary = builder.alloc(p.bytes, Category::temporary, id);
        builder.endOp(id,
                      {DType::float32, 0, 2 * p.bytes, 0, msOf(2 * p.bytes, 0), std::span(&p.variance, 1),
                       std::span(&temporary, 1)});
        const OpId update
            = builder.beginOp({builder.string("aten.addcdiv_.default"), {}, root, {}, {}, Phase::optimizer});
        const std::vector<StorageId> inputs{p.storage, p.momentum, temporary};
        builder.endOp(update,
                      {DType::float32, opInPlace, 4 * p.bytes, 0, msOf(4 * p.bytes, 0), inputs,
                       std::span(&p.storage, 1), std::span(&p.storage, 1)});
        builder.free(temporary);
    }
}

void SyntheticTape::zeroGrad()
{
    for (const Parameter& parameter : parameters)
        if (parameter.gradient.valid())
            builder.free(parameter.gradient);
}

} // namespace headroom
