// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace headroom {

/// The text of a JSON document: keys in the document's order, numbers in the shortest form that reads back equal,
/// replacement characters where text (a file name) is not UTF-8. `indent` is in spaces; -1 writes a single line. The
/// text has no newline at the end.
inline std::string jsonText(const nlohmann::ordered_json& document, int indent = -1)
{
    return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace headroom
