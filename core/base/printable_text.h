// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace headroom {

/// The number of bytes at the beginning of UTF-8 text that are a control character, or a character that changes the
/// direction of the text after it; 0: neither.
inline std::size_t controlBytes(std::string_view text)
{
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : '\0'); };
    if (at(0) < 0x20 || at(0) == 0x7f)
        return 1;
    if (at(0) == 0xc2 && at(1) >= 0x80 && at(1) < 0xa0) // U+0080 to U+009F
        return 2;
    const bool isMark = at(1) == 0x80 && (at(2) == 0x8e || at(2) == 0x8f || (at(2) >= 0xaa && at(2) <= 0xae));
    const bool isIsolate = at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9;
    return at(0) == 0xe2 && (isMark || isIsolate) ? 3 : 0;
}

/// Returns UTF-8 text with a question mark for each control character: a terminal would obey the control characters of
/// a file's text.
inline std::string printableText(std::string_view text)
{
    std::string shown;
    while (!text.empty()) {
        const std::size_t control = controlBytes(text);
        shown += control > 0 ? '?' : text.front();
        text.remove_prefix(std::max<std::size_t>(control, 1));
    }
    return shown;
}

} // namespace headroom
