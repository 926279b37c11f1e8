// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/model/pickle.h"

#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace headroom {

/// A file of torch.jit.save, checked before libtorch loads it: libtorch's reader believes what a file says, and bytes
/// that are not its own can crash it. What open() lets through has pickles that are sound, weights that are as large as
/// they say, and code that its parser can take.
class TorchScriptFile
{
public:
    /// Errors (badInput): not there, damaged, not TorchScript.
    static Result<TorchScriptFile> open(const std::filesystem::path& path);
    /// Of bytes that `memory` keeps alive; `name` stands in messages.
    static Result<TorchScriptFile> read(std::span<const std::byte> bytes, std::string name,
                                        std::shared_ptr<const void> memory);

    const std::string& name() const { return name_; }

    /// What the model was traced with, for the tensors' types and shapes: a dictionary from a method's name to the list
    /// of its arguments. Nothing when it was scripted.
    const std::optional<Pickle>& tracedInputs() const { return tracedInputs_; }

    /// Storages of at most so many bytes are read in any case: a model may ask for the values of a small tensor.
    static constexpr std::size_t smallStorage = 64 * 1024;

    /// Loads the module on the CPU. Without `weights` its large storages have no values: their memory is never touched,
    /// and nothing is read from the disk. Errors (badInput): code that does not compile, a newer format.
    Result<torch::jit::Module> load(bool weights) const;

private:
    friend class TorchScriptCheck;

    std::string name_;
    std::span<const std::byte> bytes_;
    std::shared_ptr<const void> memory_;
    std::optional<Pickle> tracedInputs_;
    std::vector<std::span<const std::byte>> weights_; ///< the large records
};

} // namespace headroom
