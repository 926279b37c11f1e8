// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_device.h"
#include "core/model/step_runner.h"

#include <benchmark/benchmark.h>

namespace headroom {
namespace {

/// Opening a demo model on the simulated GPU, its first step, and the recorded one: what `torch-headroom record` waits
/// for.
void recordDemo(benchmark::State& state, const char* model, const decltype(ModelRequest::settings)& settings,
                at::ScalarType dtype)
{
    const DeviceSpec gpu = *findDeviceSpec("h100-80gb");
    sim::initialize(gpu);
    std::size_t ops = 0;
    for (auto _ : state) {
        ModelRequest request;
        request.name = model;
        request.dtype = dtype;
        request.settings = settings;
        request.device = sim::device();
        auto source = openModel(request);
        if (!source) {
            state.SkipWithError(source.error().message.c_str());
            return;
        }
        StepInfo info;
        info.model = model;
        const auto trace = StepRunner(**source, {}).record(std::move(info), gpu, {});
        if (!trace) {
            state.SkipWithError(trace.error().message.c_str());
            return;
        }
        ops = (*trace)->ops.size();
    }
    state.counters["ops"] = static_cast<double>(ops);
}

BENCHMARK_CAPTURE(recordDemo, transformer, "demo:transformer", {}, at::kFloat)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(recordDemo, resnet50, "demo:resnet", {{"depth", "50"}}, at::kFloat)->Unit(benchmark::kMillisecond);
// GPT-3 175B.
BENCHMARK_CAPTURE(
    recordDemo, gpt3, "demo:transformer",
    {{"n_layers", "96"}, {"n_heads", "96"}, {"dim", "12288"}, {"vocab_size", "50304"}, {"max_seq_len", "2048"}},
    at::kBFloat16)
    ->Unit(benchmark::kMillisecond);

} // namespace
} // namespace headroom
