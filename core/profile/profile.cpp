// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile.h"

namespace headroom {

Profile::Text Profile::Texts::number(std::string_view text)
{
    if (const auto known = numbers_.find(text); known != numbers_.end())
        return known->second;
    const auto number = static_cast<Text>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
}

} // namespace headroom
