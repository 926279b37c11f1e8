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

/// The time model `kernel`: how long the kernels of an op take on a card. Every kernel has a start; beyond it the
/// larger of moving its bytes at a share of the card's bandwidth and computing at a share of its peak, by class,
/// element type, alignment and size. Constants are in resources/kernel_times.json, with the source of each.
class KernelModel
{
public:
    /// The constants that the program was built with.
    static const KernelModel& standard();
    /// Others, as a fit tries them. Errors (badInput) name `file`.
    static Result<KernelModel> fromJson(std::string_view text, const std::string& file);

    /// Milliseconds on the GPU; 0 for ops without a kernel.
    double ms(const OpWork& work, const DeviceSpec& device) const;

private:
    explicit KernelModel(std::shared_ptr<const KernelConstants> constants);

    std::shared_ptr<const KernelConstants> constants_;
};

} // namespace headroom
