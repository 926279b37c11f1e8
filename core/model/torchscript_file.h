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

/// A file of torch.jit.save, checked before libtorch loads it: libtorch's reader trusts the file, and foreign bytes can
/// crash it. A file that open() accepts has sound pickles, weights of the stated sizes, and code that the parser can
/// take.
class TorchScriptFile
{
public:
    /// Opens a file. Errors (badInput): missing, damaged, not TorchScript.
    static Result<TorchScriptFile> open(const std::filesystem::path& path);
    /// Reads from bytes that `memory` keeps alive; `name` is used in messages.
    static Result<TorchScriptFile> read(std::span<const std::byte> bytes, std::string name,
                                        std::shared_ptr<const void> memory);

    const std::string& name() const { return name_; }

    /// The inputs of the trace, for the tensors' types and shapes: a dictionary from a method's name to the list of its
    /// arguments. Nullopt if the model was scripted.
    const std::optional<Pickle>& tracedInputs() const { return tracedInputs_; }

    /// The largest storage in bytes that is read in any case: a model may read the values of a small tensor.
    static constexpr std::size_t smallStorage = 64 * 1024;

    /// Loads the module on the CPU. Without `weights`, large storages have no values: their memory is never touched,
    /// and nothing is read from disk. Errors (badInput): code that does not compile, a newer format.
    Result<torch::jit::Module> load(bool weights) const;

private:
    friend class TorchScriptCheck;

    std::string name_;
    std::span<const std::byte> bytes_;
    std::shared_ptr<const void> memory_;
    std::optional<Pickle> tracedInputs_;
    std::vector<std::span<const std::byte>> weights_; ///< the records that load(false) does not read
};

} // namespace headroom
