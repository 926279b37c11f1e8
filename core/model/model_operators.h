// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/function_schema.h>

#include <string>
#include <string_view>

namespace headroom {

// The operators that a model file may use. The file comes from anywhere, and some operators of libtorch write files,
// contact other processes or expect what only libtorch's own passes give them.

/// Returns whether a model file may use an operator of the dispatcher, which torch.export's files name: one of the
/// namespace aten on tensors, whose texts are modes and names of dimensions, never names of files.
bool isTensorOperator(const c10::FunctionSchema& schema);

/// Takes all operators from TorchScript's registry that a model file may not use, for the rest of the process: code
/// that names one does not compile, code that runs while a file is loaded included. Idempotent. Throws
/// std::runtime_error if libtorch keeps one.
void withholdOperators();

/// Returns the name of the withheld operator that libtorch's message misses, "aten::save"; empty: none.
std::string withheldOperator(std::string_view message);

/// The end of the sentence that refuses an operator.
constexpr const char* refusedOperator
    = "is none of the operators on tensors, numbers and texts that a model needs: a model file may neither read nor "
      "write files, nor reach other processes; leave the operator out and save the model again";

} // namespace headroom
