// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/Context.h>
#include <c10/util/Exception.h>

namespace headroom {

/// While the object lives, torch.use_deterministic_algorithms(True, warn_only=True) is set, without warnings: GPU
/// kernels add in a fixed order where possible, so that steps from the same random numbers give the same bits.
class Reproducible
{
public:
    Reproducible()
        : guard_(&silence_)
        , algorithms_(at::globalContext().deterministicAlgorithms())
        , warnOnly_(at::globalContext().deterministicAlgorithmsWarnOnly())
        , fill_(at::globalContext().deterministicFillUninitializedMemory())
        , benchmark_(at::globalContext().benchmarkCuDNN())
    {
        at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
        at::globalContext().setDeterministicFillUninitializedMemory(false); // takes time and does not change results
        at::globalContext().setBenchmarkCuDNN(false);
    }
    ~Reproducible()
    {
        at::globalContext().setBenchmarkCuDNN(benchmark_);
        at::globalContext().setDeterministicFillUninitializedMemory(fill_);
        at::globalContext().setDeterministicAlgorithms(algorithms_, warnOnly_);
    }
    Reproducible(const Reproducible&) = delete;
    Reproducible& operator=(const Reproducible&) = delete;

private:
    class Silence final : public c10::WarningHandler
    {
    public:
        void process(const c10::Warning&) override {}
    };

    Silence silence_;
    c10::WarningUtils::WarningHandlerGuard guard_;
    bool algorithms_;
    bool warnOnly_;
    bool fill_;
    bool benchmark_;
};

} // namespace headroom
