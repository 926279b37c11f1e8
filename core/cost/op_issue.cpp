// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/op_issue.h"

#include "core/cost/kernel_constants.h"
#include "core/cost/time_model.h"
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace headroom {
namespace {

/// By op: number of modules that are entered between the op before it and the op.
std::vector<std::uint32_t> entriesBefore(const StepTrace& trace)
{
    std::vector<std::uint32_t> entries(trace.ops.size(), 0);
    std::uint32_t entered = 0;
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
        const EventIndex event(i);
        if (trace.events.kind[event] == EventKind::enter)
            ++entered;
        else if (trace.events.kind[event] == EventKind::opBegin)
            entries[trace.events.a[event]] = std::exchange(entered, 0);
    }
    return entries;
}

OpIssue issueOf(const StepTrace& trace, OpId op, const KernelConstants& constants)
{
    const OpWork work = workOf(trace, op);
    const KernelConstants::Cpu& cpu = constants.cpu;
    const auto known = cpu.opUs.find(workClassName(work.kind));
    double us = known != cpu.opUs.end() ? known->second : cpu.otherUs;
    us += cpu.tensorUs * work.tensors;
    if (work.convolution.bias)
        us += cpu.otherUs; // the addition is a separate op to the dispatcher
    return {us / 1e3, work.kernels * constants.gapUs / 1e3, work.kernels, work.waits};
}

double hostFactor(const StepInfo& info, const KernelConstants& constants)
{
    if (info.cpuFactor > 0)
        return info.cpuFactor;
    const auto device = findDeviceSpec(info.gpu);
    return device ? KernelConstants::of(constants.cpu.host, *device) : 1;
}

} // namespace

std::vector<OpIssue> opIssues(const StepTrace& trace)
{
    const KernelConstants& constants = KernelConstants::standard();
    const std::vector<std::uint32_t> entries = entriesBefore(trace);
    const std::vector<std::uint32_t> places = graphPlaces(trace);
    std::map<std::tuple<StringId, SignatureId, std::uint16_t>, OpIssue> known;
    const double host = hostFactor(trace.info, constants);
    std::vector<OpIssue> issues;
    issues.reserve(trace.ops.size());
    for (std::uint32_t row = 0; row < trace.ops.size(); ++row) {
        const OpId op(row);
        const SignatureId signature = trace.ops.signature.size() > 0 ? trace.ops.signature[op] : SignatureId();
        const auto [entry, isNew] = known.try_emplace({trace.ops.name[op], signature, trace.ops.flags[op]});
        if (isNew)
            entry->second = issueOf(trace, op, constants);
        issues.push_back(entry->second);
        issues.back().cpuMs = host * (issues.back().cpuMs + entries[row] * constants.cpu.moduleUs / 1e3);
        if (!places.empty() && places[row] != 0 && row > 0 && places[row - 1] == places[row])
            issues.back().cpuMs = 0; // a CUDA graph is a single launch
    }
    return issues;
}

HostLink hostLinkOf(const StepInfo& info)
{
    const Result<DeviceSpec> gpu = findDeviceSpec(info.gpu);
    const DeviceSpec spec = gpu ? *gpu : DeviceSpec();
    HostLink link;
    link.toHost = info.toHost > 0 ? info.toHost : spec.toHost;
    link.fromHost = info.fromHost > 0 ? info.fromHost : spec.fromHost;
    return link;
}

double cpuFactorOf(const StepTrace& trace, std::span<const double> issueMs)
{
    constexpr std::size_t fewest = 200;
    const double host = hostFactor(trace.info, KernelConstants::standard());
    const std::vector<OpIssue> modelled = opIssues(trace);
    std::vector<double> factors;
    for (std::size_t i = 0; i < modelled.size(); ++i)
        if (issueMs[i] > 0 && modelled[i].cpuMs > 0)
            factors.push_back(issueMs[i] / modelled[i].cpuMs * host);
    if (factors.size() < fewest)
        return 0;
    const auto median = factors.begin() + std::ssize(factors) / 2;
    std::ranges::nth_element(factors, median);
    return *median;
}

} // namespace headroom
