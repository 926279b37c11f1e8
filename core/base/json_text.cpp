// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/json_text.h"

#include <nlohmann/json.hpp>

namespace headroom {

std::string jsonText(const nlohmann::ordered_json& document, int indent)
{
    return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace headroom
