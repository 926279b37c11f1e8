// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/model/pickle.h"

#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Checks that libtorch can compile this TorchScript code. The parser and compiler recurse into nested code without a
/// limit, and a stack overflow ends the process. Errors (badInput) begin with `name`: code that is nested too deeply.
Status checkTorchScriptCode(std::string_view code, const std::string& name);

/// Runs `work`, which must not throw, in a thread with a stack that is large enough for all code that
/// checkTorchScriptCode() accepts. Error (internal): no such thread can be started.
Status runOnLargeStack(const std::function<void()>& work);

/// The Python lines from which the code of a TorchScript file was made, as the file's debug records (*.debug_pkl) say.
class TorchScriptLines
{
public:
    struct Line
    {
        std::string file;
        std::string function; ///< empty: not known
        std::uint32_t line = 0;
    };
    /// Adds the debug record of a file with code; does nothing if the record is not as torch.jit.save writes records.
    void add(const std::string& codeFile, Pickle record);

    /// Returns the lines for a byte of a file with code, outermost first: the whole Python stack of a trace, the line
    /// of a scripted function. Empty: not known.
    std::vector<Line> at(const std::string& codeFile, std::size_t offset) const;

private:
    std::map<std::string, Pickle> records_; ///< by file with code
};

/// A file of torch.jit.save that was checked, since libtorch's reader trusts a file and a damaged one can crash it. The
/// file has valid pickles, weights of the stated sizes, and code that the parser can read.
class TorchScriptFile
{
public:
    /// Opens a file. Errors (badInput): missing, damaged, not TorchScript.
    static Result<TorchScriptFile> open(const std::filesystem::path& path);
    /// Reads from bytes that `memory` keeps alive; `name` is used in messages. Errors as open().
    static Result<TorchScriptFile> read(std::span<const std::byte> bytes, std::string name,
                                        std::shared_ptr<const void> memory);

    const std::string& name() const { return name_; }

    /// Returns the inputs of the trace: a dictionary from a method's name to the list of arguments. Nullopt if the
    /// model was scripted.
    const std::optional<Pickle>& tracedInputs() const { return tracedInputs_; }

    const TorchScriptLines& lines() const { return lines_; } ///< none if the file was saved without

    /// The limit in bytes of storages that are always read, since a model may use the values of small tensors.
    static constexpr std::size_t smallStorage = 64 * 1024;

    /// Loads the module on the CPU. If not `weights`, large storages are not read and have no values. Errors
    /// (badInput): code that does not compile, that uses an operator which a model file may not use, a newer format.
    Result<torch::jit::Module> load(bool weights) const;

private:
    friend class TorchScriptCheck;

    std::string name_;
    std::span<const std::byte> bytes_;
    std::shared_ptr<const void> memory_;
    std::optional<Pickle> tracedInputs_;
    TorchScriptLines lines_;
    std::vector<std::span<const std::byte>> weights_; ///< records that load(false) does not read
};

} // namespace headroom
