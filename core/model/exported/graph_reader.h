// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/json_reader.h"
#include "core/model/exported/exported_program.h"

/// Converts schema.py's types to those of exported_program.h. All functions throw json::Mismatch.
namespace headroom::exported {

/// Returns the only member of `value`: a union of schema.py is an object whose key is the name of the alternative.
std::pair<const std::string&, const json::Json&> alternative(const json::Json& value);

Size readSize(const json::Json& value);
TensorMeta readTensorMeta(const json::Json& value);
Argument readArgument(const json::Json& value);
Argument readNamed(const json::Json& value); ///< reads a value's name: TensorArgument
Graph readGraph(const json::Json& value);

} // namespace headroom::exported
