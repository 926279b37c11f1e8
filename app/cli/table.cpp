// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/table.h"

#include "core/base/printable_text.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <ostream>

namespace headroom::cli {

namespace {

/// Returns the number of characters, not of bytes, of a text in UTF-8.
std::size_t width(const std::string& text)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

} // namespace

Table::Table(std::vector<Heading> headings)
    : headings_(std::move(headings))
{
}

void Table::addRow(std::vector<std::string> cells)
{
    assert(cells.size() == headings_.size());
    for (std::string& cell : cells)
        cell = printableText(cell);
    rows_.push_back(std::move(cells));
}

void Table::print(std::ostream& out) const
{
    std::vector<std::size_t> widths;
    for (const Heading& heading : headings_)
        widths.push_back(width(heading.title));
    for (const auto& row : rows_) {
        for (std::size_t column = 0; column < row.size(); ++column)
            widths[column] = std::max(widths[column], width(row[column]));
    }

    const auto printRow = [&](const auto& cellAt) {
        std::string line;
        for (std::size_t column = 0; column < headings_.size(); ++column) {
            const std::string& cell = cellAt(column);
            const std::string padding(widths[column] - width(cell), ' ');
            if (column > 0)
                line += "  ";
            line += headings_[column].align == Align::right ? padding + cell : cell + padding;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out << line << '\n';
    };
    printRow([&](std::size_t column) -> const std::string& { return headings_[column].title; });
    for (const auto& row : rows_)
        printRow([&](std::size_t column) -> const std::string& { return row[column]; });
}

std::string formatNumber(double number, int decimals)
{
    std::array<char, 400> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, number);
    std::string text = buffer.data();
    if (!std::isfinite(number))
        return text;
    const std::size_t first = text.front() == '-' ? 1 : 0;
    for (std::size_t position = std::min(text.find('.'), text.size()); position > first + 3;) {
        position -= 3;
        text.insert(position, 1, ',');
    }
    return text;
}

std::string formatMs(double ms)
{
    const int decimals = ms != 0 && std::abs(ms) < 0.01 ? 5 : 2;
    return formatNumber(ms, decimals) + " ms";
}

std::string formatPercent(double share)
{
    return formatNumber(100 * share, 1) + " %";
}

} // namespace headroom::cli
