// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/record_report.h"

#include "core/base/bytes.h"
#include "core/base/json_text.h"
#include "core/device/simulated_device.h"
#include "core/timeline/timeline_json.h"
#include "core/trace/phase_times.h"
#include "core/trace/step_info_json.h"

#include <nlohmann/json.hpp>

#include <iomanip>
#include <iostream>

namespace headroom {
namespace {

/// What a real device showed.
void printMeasured(const MeasuredStep& measured)
{
    const auto bytes = [](Bytes value) { return formatBytes(value); };
    std::cout << std::fixed << std::setprecision(2);
    if (measured.kernels > 0)
        std::cout << "measured             " << measured.busyMs << " ms of work in " << measured.kernels
                  << " kernels and copies, in a step of " << measured.stepMs << " ms while it was recorded\n";
    if (measured.overheadMs > 0)
        std::cout << "cost of tracing      " << measured.overheadMs << " ms of the CPU's time\n";
    std::cout << "allocator's peaks    allocated " << bytes(measured.allocatedPeak) << ", active "
              << bytes(measured.activePeak) << ", reserved " << bytes(measured.reservedPeak) << '\n';
    if (measured.nonPyTorch > 0)
        std::cout << "not PyTorch's        " << bytes(measured.nonPyTorch)
                  << ": CUDA's context, workspaces of libraries, other programs\n";
    for (const std::string& note : measured.notes)
        std::cout << "note: " << note << '\n';
}

} // namespace

void printRecordJson(const RecordSummary& summary)
{
    const StepTrace& trace = *summary.trace;
    nlohmann::json fallbacks = nlohmann::json::array();
    for (const sim::Fallback& fallback : sim::fallbacks())
        fallbacks.push_back({{"op", fallback.op}, {"count", fallback.count}});
    nlohmann::ordered_json document{{"step", summary.output},
                                    {"model", trace.info.model},
                                    {"gpu", trace.info.gpu},
                                    {"gpu_memory_bytes", summary.gpu.memory},
                                    {"peak_bytes", summary.timeline.peak},
                                    {"baseline_peak_bytes", summary.baseline.peak},
                                    {"compute_ms", forwardBackwardMs(trace)},
                                    {"ops", trace.ops.size()},
                                    {"record_ms", summary.recordMs},
                                    {"loss", trace.info.loss},
                                    {"lifetimes", trace.info.lifetimes},
                                    {"notes", summary.notes},
                                    {"fallbacks", fallbacks},
                                    {"invented_values", trace.info.inventedValues}};
    if (trace.info.measured)
        document["measured"] = nlohmann::json(toJson(*trace.info.measured));
    addAccount(document, trace.info, summary.timeline);
    std::cout << jsonText(document, 2) << '\n';
}

void printRecordText(const RecordSummary& summary)
{
    const StepTrace& trace = *summary.trace;
    const auto bytes = [](Bytes value) { return formatBytes(value) + " (" + groupedDigits(value) + " bytes)"; };
    std::cout << trace.info.model << " on " << summary.gpu.title
              << (trace.info.measured ? " (measured)\n" : " (simulated)\n") << "peak on the device   "
              << bytes(summary.timeline.peak) << '\n'
              << "PyTorch's estimate   " << bytes(summary.baseline.peak)
              << ": parameters, gradients and activations, without optimizer state\n"
              << "forward and backward " << std::fixed << std::setprecision(2) << forwardBackwardMs(trace) << " ms, "
              << trace.ops.size() << " ops in the step\n"
              << "recorded in          " << std::setprecision(0) << summary.recordMs << " ms, written to "
              << summary.output << '\n';
    if (trace.info.loss != "output")
        std::cout << "loss                 " << trace.info.loss << " of the model's output\n";
    for (const std::string& note : summary.notes)
        std::cout << "note: " << note << '\n';
    if (trace.info.measured)
        return printMeasured(*trace.info.measured);
    if (summary.timeline.peak > summary.gpu.memory)
        std::cout << "note: this is more than the card's " << formatBytes(summary.gpu.memory)
                  << "; torch-headroom plan says what to recompute\n";
    for (const sim::Fallback& fallback : sim::fallbacks())
        std::cout << "note: " << fallback.op << " has no kernel on the simulated GPU and ran " << fallback.count
                  << " times on zeros to learn its shapes\n";
    if (trace.info.inventedValues != 0)
        std::cout << "note: " << trace.info.inventedValues
                  << " values read back from the GPU were invented, as there is no data\n";
}

} // namespace headroom
