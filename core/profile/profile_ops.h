// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_signature.h"
#include "core/profile/profile.h"
#include "core/trace/step_trace.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// An op of a trace at the level of a recorded step, below composite ops: aten::linear is recorded as aten::addmm.
struct ProfiledOp
{
    const Profile::Span* span = nullptr;
    Phase phase = Phase::forward;
    std::uint32_t module = 0; ///< index in ProfiledStep::modules
    double gpuMs = 0; ///< time of kernels, copies and fills, including inner ops
    double cpuMs = 0;
    double issueMs = 0; ///< CPU time from its begin to that of its thread's next op; 0: something else came between
    std::int64_t kernels = 0;
    Profile::Text kernel = 0; ///< name of the first kernel
};

/// A step of a trace.
struct ProfiledStep
{
    struct Module
    {
        std::string name; ///< "layers.0.attention"; empty for the root
        std::uint32_t parent = 0;
    };

    std::vector<ProfiledOp> ops; ///< sorted by begin
    std::vector<Module> modules{Module()}; ///< parents before children; the first is the root
    double stepMs = 0; ///< the longer of the step's CPU time and spanMs
    double cpuMs = 0; ///< CPU time of the ops
    double busyMs = 0; ///< time in which the GPU worked; overlapping streams count once
    double kernelMs = 0;
    double withoutOpMs = 0; ///< part of kernelMs that no op launched
    double spanMs = 0; ///< from the first kernel's begin to the last kernel's end
    double synchronizationMs = 0; ///< time that the CPU waited for the GPU
    std::int64_t kernels = 0;
};

/// Extracts a step. A kernel belongs to the window of its launch, and to the innermost op that encloses the launch on
/// its thread. Modules come from Python (with_stack), TorchScript (with_modules) and record_function. A backward op has
/// the module of the forward op with the same sequence number.
ProfiledStep profiledStep(const Profile& profile, const ProfileWindow& window);

/// Returns whether an op such as "aten::linear" only calls other ops and has no kernel in any backend
/// (resources/composite_ops.txt).
bool isCompositeOp(std::string_view name);

/// The call of an op in a trace, in the form of the cost formulas.
struct OpShapes
{
    std::string name; ///< without the overload, absent in traces: "aten.mm"
    std::vector<TensorShape> inputs; ///< tensor arguments in the schema's order
    std::vector<TensorShape> outputs; ///< not in the trace: computed from the op and the arguments
    ConvolutionArguments convolution;
    OpSignature call;
    DType dtype = DType::other; ///< dtype of the first result
};

/// Converts "aten::mm" to the name in a step, "aten.mm".
std::string stepOpName(std::string_view traceName);

/// Returns the shapes of an op; nullopt if the trace has no shapes, or the results do not follow from them. `kernel` is
/// the first kernel that the op launched; the kernel's name has the element type of a list of tensors.
std::optional<OpShapes> opShapes(const Profile& profile, const Profile::Span& span, std::string_view kernel);

/// The text of resources/composite_ops.txt at configuration time.
std::string_view compositeOps();

} // namespace headroom
