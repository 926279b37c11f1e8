// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/record/recorder.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

/// The shape and type of an input of the model's forward, as in --input x=8x128:int64.
struct InputShape
{
    std::string name;
    std::vector<std::int64_t> sizes; ///< empty: a scalar
    std::optional<at::ScalarType> dtype; ///< nullopt: the type in the trace, or float32
};

/// Parses NAME=SHAPE[:DTYPE]. SHAPE is 8x128, or `scalar`. Errors (badInput) tell what was expected.
Result<InputShape> parseInputShape(std::string_view text);

/// Returns PyTorch's name of a type: "int64".
std::string dtypeName(at::ScalarType dtype);

/// Returns "8x128", or "scalar".
std::string shapeText(const std::vector<std::int64_t>& sizes);

/// The time at which a model releases a value.
enum class Lifetimes {
    frame, ///< at the end of the forward with the local variable, as in Python
    graph, ///< after the last use
};
std::string_view lifetimesName(Lifetimes lifetimes); ///< "frame", "graph"
Result<Lifetimes> parseLifetimes(std::string_view name); ///< error (badInput): another name

/// The model to open, by the user's request: name, batch size, element type and device.
struct ModelRequest
{
    std::string name; ///< "demo:transformer", or the path of a model file
    std::int64_t batch = 0; ///< 0: the model's default
    std::int64_t sequence = 0; ///< 0: the model's default
    std::optional<at::ScalarType> dtype; ///< type of parameters and activations; nullopt: the model's own
    std::optional<Lifetimes> lifetimes; ///< nullopt: the model's own
    at::Device device = at::kCPU;
    std::vector<std::pair<std::string, std::string>> settings; ///< --set KEY=VALUE, in the order given
    std::vector<InputShape> inputs{}; ///< --input, for model files without the shapes of inputs
};

/// Returns whether tensors on a device have values: true for all devices but the simulated one.
inline bool computes(at::Device device)
{
    return device.type() != at::kPrivateUse1;
}

/// The exception of a forward that cannot run. The message is a sentence for the user that names the operator and the
/// module.
struct ModelFailed : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Returns the first line of libtorch's message, without the backtrace.
std::string firstLine(const c10::Error& error);
/// Returns whether libtorch's message reports that the CPU's memory is exhausted.
bool saysOutOfMemory(std::string_view message);

/// A model that is open on a device, with a batch. Parameters and inputs live as long as the source.
class ModelSource
{
public:
    ModelSource() = default;
    virtual ~ModelSource() = default;
    ModelSource(const ModelSource&) = delete;
    ModelSource& operator=(const ModelSource&) = delete;

    virtual const ModelTree& tree() const = 0;
    virtual const std::vector<at::Tensor>& inputs() const = 0; ///< the batch, on the device

    /// Runs the root module's forward, and reports module calls to the Recorder. When it returns, only the results, the
    /// parameters and autograd's graph hold tensors.
    virtual std::vector<at::Tensor> forward() = 0;

    virtual std::int64_t batch() const = 0;
    virtual std::int64_t sequence() const = 0; ///< 0: the model has no sequence dimension

    /// Returns the dimensions that --batch and --seq may choose.
    virtual std::vector<StepInfo::Dimension> dimensions() const = 0;
    virtual Lifetimes lifetimes() const { return Lifetimes::frame; }
    /// Returns sentences about the step's accuracy, for the user.
    virtual std::vector<std::string> notes() const { return {}; }
};

/// Returns each trainable parameter once, in the order of Python's model.parameters(). A tied weight is in the place of
/// the first owner.
std::vector<at::Tensor> trainableParameters(const ModelTree& tree);

/// Opens a model. Errors (badInput): an unknown name, with a list of the known ones; wrong settings or sizes. Sizes are
/// checked before memory is allocated.
Result<std::unique_ptr<ModelSource>> openModel(const ModelRequest& request);

/// Returns the names of the models that need no file: "demo:mlp", …
std::vector<std::string> demoModels();

/// Parses "float32", "bfloat16" or "float16". Errors (badInput): another name.
Result<at::ScalarType> parseDType(std::string_view name);

/// Opens a torch.export archive (.pt2). Errors (badInput) as openModel().
Result<std::unique_ptr<ModelSource>> openExportedProgram(const ModelRequest& request);

/// Opens a file of torch.jit.save (.pt). TorchScript's interpreter runs the model and frees a value after the last use.
/// Errors (badInput) as openModel().
Result<std::unique_ptr<ModelSource>> openTorchScript(const ModelRequest& request);

namespace demo {

/// Opens the GPT-like Transformer of PyTorch's own tests (torch.testing._internal.distributed._tensor.common_dtensor),
/// with ModelArgs as settings. Errors (badInput): wrong settings.
Result<std::unique_ptr<ModelSource>> openTransformer(const ModelRequest& request);

/// Opens blocks of Linear, ReLU and Linear on an input of (batch, seq, dim). Errors (badInput): wrong settings.
Result<std::unique_ptr<ModelSource>> openMlp(const ModelRequest& request);

/// Opens torchvision's ResNet-18, -34 or -50 on square RGB images. Errors (badInput): wrong settings.
Result<std::unique_ptr<ModelSource>> openResnet(const ModelRequest& request);

} // namespace demo

} // namespace headroom
