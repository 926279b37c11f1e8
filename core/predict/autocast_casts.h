// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_index.h"

namespace headroom {

/// Finds the casts of weights that an op takes from autocast's cache (cached_cast() in
/// aten/src/ATen/autocast_mode.cpp), inferred from the ops of the step.
struct AutocastCasts
{
    const StepTrace& trace;
    const StepIndex& index;

    /// Calls visit(StorageId) with the result of each cast that must exist when the op begins.
    template <class Visit>
    void forEachOf(OpId op, Visit visit) const
    {
        const auto visitInputs = [&](OpId reader, bool always) {
            for (const StorageId input : trace.ops.inputs[reader])
                if (const OpId cast = index.casts[input.value]; cast.valid() && (always || comesBeforeInput(cast)))
                    visit(input);
        };
        visitInputs(op, true);
        if (!isOfInput(op))
            return;
        // Autocast may cast the weights before the input: then the casts of the weights must exist when the cast of the
        // input begins.
        OpId reader(op.value + 1);
        for (; reader.value < trace.ops.size() && (isOfInput(reader) || isView(reader)); ++reader.value)
            visitInputs(reader, false);
        if (reader.value < trace.ops.size())
            visitInputs(reader, false);
    }

    /// Calls visit(OpId) with each cast in the run of casts that `cast` is in, such as the casts of an op's weight and
    /// bias.
    template <class Visit>
    void forEachBeside(OpId cast, Visit visit) const
    {
        while (cast.value > 0 && isOfWeight(OpId(cast.value - 1)))
            --cast.value;
        for (; cast.value < trace.ops.size() && isOfWeight(cast); ++cast.value)
            visit(cast);
    }

private:
    bool isView(OpId op) const { return (trace.ops.flags[op] & opView) != 0; }
    bool isOfWeight(OpId op) const { return (trace.ops.flags[op] & opAutocastCast) != 0; }
    /// Whether the op casts an activation. A copy from the CPU has no input on the device and does not count.
    bool isOfInput(OpId op) const
    {
        return trace.ops.name[op] == index.castName && !isOfWeight(op) && !trace.ops.inputs[op].empty();
    }
    /// Where the input needed no cast beside the casts of the weights, the weights' casts are taken to come first:
    /// arguments are cast from the last argument on.
    bool comesBeforeInput(OpId cast) const
    {
        OpId next = cast;
        while (next.value < trace.ops.size() && isOfWeight(next))
            ++next.value;
        if (next.value < trace.ops.size() && isOfInput(next))
            return true;
        while (cast.value > 0 && isOfWeight(cast))
            --cast.value;
        return !isOfInput(cast);
    }
};

} // namespace headroom
