// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/exported/exported_program.h"
#include "core/model/exported/json_fields.h"

/// schema.py's types to ours. All throw json::Mismatch.
namespace headroom::exported {

Size readSize(const json::Json& value);
TensorMeta readTensorMeta(const json::Json& value);
Argument readArgument(const json::Json& value);
Graph readGraph(const json::Json& value);

} // namespace headroom::exported
