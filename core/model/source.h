// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/model/input_shape.h"
#include "core/record/recorder.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

/// When a recorded program lets go of a value.
enum class Lifetimes {
    frame, ///< when the forward returns whose code holds it, as Python's locals do
    graph, ///< at its last use
};
std::string_view lifetimesName(Lifetimes lifetimes); ///< "frame", "graph"
Result<Lifetimes> parseLifetimes(std::string_view name);

/// What the user asks for: which model, how large a batch, in which element type, on which device.
struct ModelRequest
{
    std::string name; ///< "demo:transformer", or the path of a model file
    std::int64_t batch = 0; ///< 0: the model's default
    std::int64_t sequence = 0; ///< 0: the model's default
    std::optional<at::ScalarType> dtype; ///< of parameters and activations; none: the model's own
    std::optional<Lifetimes> lifetimes; ///< none: the model's own
    at::Device device = at::kCPU;
    std::vector<std::pair<std::string, std::string>> settings; ///< --set KEY=VALUE, in the order given
    std::vector<InputShape> inputs{}; ///< --input, for models that do not state the shapes of their inputs
};

/// Whether tensors on a device have values: on all but the simulated one.
inline bool computes(at::Device device)
{
    return device.type() != at::kPrivateUse1;
}

/// Thrown by a forward that cannot run: names the operator and the module. A sentence for the user.
struct ModelFailed : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// A model that is open on a device, with its batch: what a training step needs. Parameters and inputs live as long as
/// the source.
class ModelSource
{
public:
    ModelSource() = default;
    virtual ~ModelSource() = default;
    ModelSource(const ModelSource&) = delete;
    ModelSource& operator=(const ModelSource&) = delete;

    virtual const ModelTree& tree() const = 0;
    virtual const std::vector<at::Tensor>& inputs() const = 0; ///< the batch, on the device

    /// The root module's forward, calls of modules announced to the Recorder. Nothing but the results, the parameters
    /// and autograd's graph holds a tensor when it returns.
    virtual std::vector<at::Tensor> forward() = 0;

    virtual std::int64_t batch() const = 0;
    virtual std::int64_t sequence() const = 0; ///< 0: the model has no sequence dimension

    /// What --batch and --seq may choose.
    virtual std::vector<StepInfo::Dimension> dimensions() const = 0;
    virtual Lifetimes lifetimes() const { return Lifetimes::frame; }
    /// Sentences that the user needs to trust the step.
    virtual std::vector<std::string> notes() const { return {}; }
};

/// Each trainable parameter once, a tied weight at its first owner, in the order of Python's model.parameters().
std::vector<at::Tensor> trainableParameters(const ModelTree& tree);

/// Opens a model. Errors (badInput): an unknown name lists what is known; settings and sizes are checked here, before
/// anything is allocated.
Result<std::unique_ptr<ModelSource>> openModel(const ModelRequest& request);

/// Names of the models that need no file: "demo:mlp", …
std::vector<std::string> demoModels();

/// "float32", "bfloat16", "float16" to PyTorch's type.
Result<at::ScalarType> parseDType(std::string_view name);

} // namespace headroom
