// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/time_model.h"

#include "core/cost/kernel_model.h"

#include <map>
#include <tuple>

namespace headroom {

std::string_view timeModelName(TimeModel model)
{
    return model == TimeModel::kernel ? "kernel" : "roofline";
}

std::string timesOf(const StepInfo& info)
{
    if (info.measured && info.measured->kernels > 0)
        return "measured";
    return info.times.empty() ? "roofline" : info.times;
}

std::vector<double> opTimes(const StepTrace& trace, const DeviceSpec& device, TimeModel model)
{
    const StepTrace::Ops& ops = trace.ops;
    std::vector<double> times;
    times.reserve(ops.size());
    // Ops of the same name and shapes take the same time.
    std::map<std::tuple<StringId, SignatureId, std::uint16_t, double>, double> known;
    for (std::uint32_t row = 0; row < ops.size(); ++row) {
        const OpId op(row);
        if (model == TimeModel::roofline || trace.signatureOf(op).empty()) {
            times.push_back(rooflineMs(device, ops.bytes[op], ops.flops[op], ops.dtype[op], ops.flags[op]));
            continue;
        }
        const auto [entry, isNew] = known.try_emplace({ops.name[op], ops.signature[op], ops.flags[op], ops.flops[op]});
        if (isNew)
            entry->second = KernelModel::standard().ms(workOf(trace, op), device);
        times.push_back(entry->second);
    }
    return times;
}

OpWork workOf(const StepTrace& trace, OpId op)
{
    return workOf(trace.opName(op), decodedSignature(trace.signatureOf(op)), trace.ops.flags[op], trace.ops.flops[op]);
}

StepTracePtr withOpTimes(const StepTracePtr& step, std::vector<double> ms, const std::string& gpu,
                         std::string_view times)
{
    struct Columns
    {
        std::vector<double> ms;
        StepTracePtr step; ///< owns the other columns
    };
    auto columns = std::make_shared<Columns>(Columns{std::move(ms), step});
    auto result = std::make_shared<StepTrace>(*step);
    result->info.gpu = gpu;
    result->info.times = times;
    result->ops.ms.rows = columns->ms;
    result->memory = std::move(columns);
    return result;
}

} // namespace headroom
