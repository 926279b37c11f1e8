// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/source.h"
#include "core/model/torchscript_file.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace headroom {

/// The arguments of a TorchScript model's forward. A traced model has the shapes of its inputs; a scripted model needs
/// --input. Integers are zero, which is a valid index of any tensor.
class TorchScriptInputs
{
public:
    /// Makes the arguments. Errors (badInput): an argument whose shape or value is not known, an --input that forward
    /// does not have, a requested size for which the model has no dimension.
    static Result<TorchScriptInputs> make(const TorchScriptFile& file, const c10::FunctionSchema& forward,
                                          const ModelRequest& request);

    const std::vector<c10::IValue>& arguments() const { return arguments_; }
    const std::vector<at::Tensor>& tensors() const { return tensors_; } ///< the tensors in arguments(), on the device
    std::int64_t batch() const { return batch_; }
    std::int64_t sequence() const { return sequence_; } ///< 0: there is none
    /// Returns the inputs as "ids=2x64:int64", for messages.
    const std::string& text() const { return text_; }

private:
    friend class InputMaker;

    std::vector<c10::IValue> arguments_;
    std::vector<at::Tensor> tensors_;
    std::int64_t batch_ = 0;
    std::int64_t sequence_ = 0;
    std::string text_;
};

} // namespace headroom
