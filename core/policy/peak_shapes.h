// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/causes.h"
#include "core/timeline/timeline.h"

#include <string>
#include <vector>

namespace headroom {

/// A cause that the shapes of the tensors at the peak tell: scores of attention, logits, or results of ops that make
/// much from little.
struct ShapeCause
{
    CauseKind kind = CauseKind::attention;
    Bytes bytes = 0;
    std::string sentence;
    std::vector<StorageId> storages;
};

/// `atPeak`: the live blocks at the peak; `peak`: the bytes of all.
std::vector<ShapeCause> causesByShape(const StepTrace& step, const std::vector<LiveBlock>& atPeak, Bytes peak);

} // namespace headroom
