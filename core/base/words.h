// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>

namespace headroom {

/// Calls visit(word) for each word of a text, which blanks or ends of lines separate.
template <class Visit>
void forEachWord(std::string_view text, Visit visit)
{
    constexpr std::string_view blanks = " \n";
    for (std::size_t begin = text.find_first_not_of(blanks); begin != std::string_view::npos;) {
        const std::size_t end = text.find_first_of(blanks, begin);
        visit(text.substr(begin, end - begin));
        begin = text.find_first_not_of(blanks, end);
    }
}

} // namespace headroom
