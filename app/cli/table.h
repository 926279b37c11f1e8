// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <iosfwd>
#include <string>
#include <vector>

namespace headroom::cli {

/// A table as text: columns as wide as the longest cell, numbers right-aligned. print() writes all rows at once, since
/// widths must be known. Two spaces separate columns, so that a script can split a row.
class Table
{
public:
    enum class Align { left, right };
    struct Heading
    {
        std::string title;
        Align align = Align::left;
    };

    explicit Table(std::vector<Heading> headings);

    /// Adds a row with a cell for each heading.
    void addRow(std::vector<std::string> cells);
    bool empty() const noexcept { return rows_.empty(); }

    void print(std::ostream& out) const;

private:
    std::vector<Heading> headings_;
    std::vector<std::vector<std::string>> rows_;
};

/// Returns "1,234.568": digits in groups of three, `decimals` digits after the point.
std::string formatNumber(double number, int decimals);

/// Returns "39.90 ms"; below 0.01 ms with more digits, so that a short op does not look free.
std::string formatMs(double ms);

/// Returns a share, 0 to 1, in percent: "12.3 %".
std::string formatPercent(double share);

} // namespace headroom::cli
