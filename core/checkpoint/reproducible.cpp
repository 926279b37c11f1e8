// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/reproducible.h"

#include <ATen/Context.h>

namespace headroom {

Reproducible::Reproducible()
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

Reproducible::~Reproducible()
{
    at::globalContext().setBenchmarkCuDNN(benchmark_);
    at::globalContext().setDeterministicFillUninitializedMemory(fill_);
    at::globalContext().setDeterministicAlgorithms(algorithms_, warnOnly_);
}

} // namespace headroom
