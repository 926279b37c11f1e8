// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Traces of torch.profiler: reading, the choice of the step, the step made of it, and its memory.
#include "core/predict/predict.h"
#include "core/profile/import.h"
#include "core/profile/profile_reader.h"
#include "core/trace/step_file.h"

#include <cstdlib>
#include <iostream>
#include <span>

using namespace headroom;

namespace {

[[noreturn]] void wrong(const std::string& what)
{
    std::cerr << what << '\n';
    std::abort();
}

void check(const Profile& profile, const ProfileRequest& request)
{
    const Result<StepTracePtr> step = importProfile(profile, "input", request);
    if (!step) {
        if (step.error().kind != ErrorKind::badInput)
            wrong(step.error().message);
        return;
    }
    const MeasuredStep& measured = (*step)->info.measured.value();
    if (measured.busyMs > measured.kernelMs * 1.000001 || measured.withoutOpMs > measured.kernelMs * 1.000001)
        wrong("the GPU worked longer than its kernels took");
    if (const Result<Timeline> timeline = predict(**step, {}); !timeline)
        wrong(timeline.error().message);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const Result<Profile> profile = readProfile(std::span(reinterpret_cast<const std::byte*>(data), size), "input");
    if (!profile) {
        if (profile.error().kind != ErrorKind::badInput || !profile.error().message.starts_with("input"))
            wrong(profile.error().message);
        return 0;
    }
    check(*profile, {});
    check(*profile, {1, false, ""});
    check(*profile, {{}, true, "a100-80gb"});
    return 0;
}
