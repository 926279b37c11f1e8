// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace headroom {

/// How every document is written: keys in the document's order, numbers as short as they can be read back, text that is
/// not UTF-8 (a file name) with replacement characters; no end of line. On one line, or with so much indentation.
std::string jsonText(const nlohmann::ordered_json& document, int indent = -1);

} // namespace headroom
