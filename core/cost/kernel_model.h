// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_work.h"
#include "core/cost/roofline.h"

#include <memory>
#include <string>
#include <string_view>

namespace headroom {

struct KernelConstants;

/// The time model `kernel`: the time of an op's kernels on a GPU. A kernel takes a start time plus the larger of two
/// times: moving its bytes at a share of the GPU's bandwidth, and computing at a share of its peak. The shares depend
/// on class, element type, alignment and size. Constants are in resources/kernel_times.json, with the source of each.
class KernelModel
{
public:
    /// The model with the constants compiled into the program.
    static const KernelModel& standard();
    /// The model with other constants, for fitting them. Errors (badInput) name `file`.
    static Result<KernelModel> fromJson(std::string_view text, const std::string& file);

    /// Milliseconds on the GPU; 0 for ops without a kernel.
    double ms(const OpWork& work, const DeviceSpec& device) const;

private:
    explicit KernelModel(std::shared_ptr<const KernelConstants> constants);

    std::shared_ptr<const KernelConstants> constants_;
};

} // namespace headroom
