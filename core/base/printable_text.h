// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// Returns UTF-8 text with a question mark for each control character: a terminal would obey the control characters of
/// a file's text.
inline std::string printableText(std::string_view text)
{
    std::string shown(text);
    for (std::size_t i = 0; i < shown.size(); ++i) {
        const auto byte = static_cast<unsigned char>(shown[i]);
        const auto next = static_cast<unsigned char>(i + 1 < shown.size() ? shown[i + 1] : '\0');
        const bool longControl = byte == 0xc2 && next >= 0x80 && next < 0xa0; // U+0080 to U+009F
        if (longControl)
            shown.erase(i, 1);
        if (longControl || byte < 0x20 || byte == 0x7f)
            shown[i] = '?';
    }
    return shown;
}

} // namespace headroom
