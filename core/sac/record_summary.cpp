// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/record_summary.h"

#include "core/cost/card_memory.h"
#include "core/cost/time_model.h"
#include "core/sac/step_statistics.h"
#include "core/timeline/timeline.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/phase_times.h"
#include "core/trace/remarks.h"
#include "core/trace/source_lines.h"
#include "core/trace/step_info_json.h"

#include <nlohmann/json.hpp>

#include <iomanip>
#include <sstream>

namespace headroom {

using Json = nlohmann::ordered_json;

namespace {

std::string bytes(const Json& value)
{
    return formatBytes(value.get<Bytes>());
}

std::string exactly(const Json& value)
{
    return exactBytes(value.get<Bytes>());
}

std::string rankText(const Json& summary)
{
    if (!summary.contains("distributed"))
        return {};
    const Json& job = summary["distributed"];
    return ", rank " + std::to_string(job["rank"].get<int>()) + " of " + std::to_string(job["world_size"].get<int>());
}

/// Adds PyTorch's estimate of memory and time, and Headroom's time.
void addTimes(const Json& summary, std::ostream& out)
{
    const bool isMeasured = !summary.contains("kernel_compute_ms");
    const auto ms = summary["compute_ms"].get<double>();
    out << "PyTorch's estimate   " << exactly(summary["baseline_peak_bytes"])
        << ": parameters, gradients and activations, without optimizer state";
    if (!isMeasured)
        out << "; " << ms << " ms";
    out << "\nforward and backward ";
    if (isMeasured)
        out << ms << " ms as measured, ";
    else
        out << summary["kernel_compute_ms"].get<double>() << " ms of the time model `kernel`, ";
    out << summary["ops"] << " ops in the step\n";
}

void addMeasured(const Json& measured, std::ostream& out)
{
    if (measured["kernels"] > 0)
        out << "measured             " << measured["busy_ms"].get<double>() << " ms of work in " << measured["kernels"]
            << " kernels and copies, in a step of " << measured["step_ms"].get<double>() << " ms under the recorder\n";
    if (const auto overhead = measured["overhead_ms"].get<double>(); overhead > 0)
        out << "cost of tracing      " << overhead << " ms of the CPU's time\n";
    out << "allocator's peaks    allocated " << bytes(measured["allocated_peak_bytes"]) << ", active "
        << bytes(measured["active_peak_bytes"]) << ", reserved " << bytes(measured["reserved_peak_bytes"]) << '\n';
    if (measured["non_pytorch_bytes"] > 0)
        out << "not PyTorch's        " << bytes(measured["non_pytorch_bytes"])
            << ": CUDA's context, workspaces of libraries, other programs\n";
    for (const Json& note : measured["notes"])
        out << "note: " << note.get<std::string>() << '\n';
}

void addSimulated(const Json& summary, std::ostream& out)
{
    if (summary["peak_bytes"] > summary["gpu_usable_bytes"])
        out << "note: this is more than the card's " << bytes(summary["gpu_usable_bytes"])
            << " (without CUDA's context, cuBLAS's workspaces and NCCL's buffers); torch-headroom plan says what to "
               "recompute\n";
    if (summary["invented_values"] > 0)
        out << "note: " << summary["invented_values"]
            << " values read back from the GPU were placeholders: the simulated GPU computes no numbers\n";
}

} // namespace

Json fallbacksJson(const StepTrace& step)
{
    Json fallbacks = Json::array();
    for (const FallbackOp& fallback : fallbackOps(step))
        fallbacks.push_back({{"op", fallback.op}, {"module", fallback.module}, {"count", fallback.count}});
    return fallbacks;
}

void addOutOfMemory(Json& document, const StepTrace& step, std::span<const double> ms)
{
    if (step.ops.size() == 0)
        return;
    const SourceLines lines(step);
    for (const OutOfMemory& failure : outOfMemoryEvents(step, ms)) {
        Json pieces = Json::array();
        for (const OutOfMemory::Piece& piece : failure.largest) {
            const bool isKnown = piece.beside.valid();
            pieces.push_back({{"bytes", piece.bytes},
                              {"beside_bytes", isKnown ? Json(step.storages.bytes[piece.beside]) : Json()},
                              {"beside_line", isKnown ? lines.text(piece.beside) : ""}});
        }
        document["out_of_memory"].push_back({{"instant", failure.ms},
                                             {"module", step.moduleFqn(step.ops.module[failure.op])},
                                             {"requested_bytes", failure.requested},
                                             {"free_bytes", failure.deviceFree},
                                             {"reserved_bytes", failure.reserved},
                                             {"active_bytes", failure.active},
                                             {"free_pieces", failure.pieces},
                                             {"largest_free_pieces", std::move(pieces)},
                                             {"reason", whyOutOfMemory(step, failure)}});
    }
}

Json recordSummary(const StepTrace& step, const DeviceSpec& card, const Timeline& timeline)
{
    Json summary{{"model", step.info.model},
                 {"gpu", step.info.gpu},
                 {"gpu_title", card.title},
                 {"gpu_memory_bytes", card.memory},
                 {"gpu_usable_bytes", cardMemory(card, step).usable()},
                 {"steps", step.info.steps},
                 {"peak_bytes", timeline.peak},
                 {"remarks", remarks(step)},
                 {"ops", step.ops.size()},
                 {"loss", step.info.loss},
                 {"lifetimes", step.info.lifetimes},
                 {"fallbacks", fallbacksJson(step)},
                 {"invented_values", step.info.placeholderValues}};
    if (step.info.distributed)
        summary["distributed"] = toJson(*step.info.distributed);
    if (step.info.measured)
        summary["measured"] = toJson(*step.info.measured);
    addAccount(summary, step.info, timeline);
    // The clock of `info` and `plan`; the step file has the roofline's times.
    const bool isMeasured = timesOf(step.info) == "measured";
    const std::vector<double> ms
        = isMeasured ? std::vector(step.ops.ms.begin(), step.ops.ms.end()) : opTimes(step, card, TimeModel::kernel);
    addOutOfMemory(summary, step, ms);
    // The statistics of PyTorch's tools; an interrupted step has none.
    if (const Result<ModuleInfo> modules = moduleInfo(step)) {
        summary["baseline_peak_bytes"] = baseline(*modules).peak;
        summary["compute_ms"] = forwardBackwardMs(step);
        if (!isMeasured)
            summary["kernel_compute_ms"] = forwardBackwardMs(step, ms);
    }
    return summary;
}

std::string recordText(const Json& summary)
{
    std::ostringstream out;
    out << std::fixed << std::setprecision(2) << summary["model"].get<std::string>() << " on "
        << summary["gpu_title"].get<std::string>() << (summary.contains("measured") ? " (measured)" : " (simulated)")
        << ", step " << summary["steps"] << rankText(summary) << "\npeak on the device   "
        << exactly(summary["peak_bytes"]) << '\n';
    for (const Json& remark : summary["remarks"])
        out << "remark: " << remark.get<std::string>() << '\n';
    if (summary.contains("baseline_peak_bytes"))
        addTimes(summary, out);
    out << "recorded in          " << std::setprecision(0) << summary["record_ms"].get<double>() << " ms, written to "
        << summary["step"].get<std::string>() << '\n'
        << std::setprecision(2);
    if (summary["loss"] == "sum" || summary["loss"] == "mean")
        out << "loss                 " << summary["loss"].get<std::string>() << " of the model's output\n";
    for (const Json& note : summary["notes"])
        out << "note: " << note.get<std::string>() << '\n';
    for (const Json& failure : summary.value("out_of_memory", Json::array())) {
        const auto module = failure["module"].get<std::string>();
        out << "note: out of memory at " << failure["instant"].get<double>() << " ms"
            << (module.empty() ? "" : " in " + module) << ": " << failure["reason"].get<std::string>() << '\n';
    }
    if (summary.contains("measured"))
        addMeasured(summary["measured"], out);
    else
        addSimulated(summary, out);
    return out.str();
}

} // namespace headroom
