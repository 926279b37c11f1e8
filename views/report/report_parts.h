// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/report/report.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::html {

/// Text as HTML. Control characters and marks of text direction become question marks, as in a terminal.
std::string escaped(std::string_view text);
/// A name as HTML, which keeps its own direction. A long name loses its middle.
std::string nameOf(std::string_view name);
/// A part of a sentence as a sentence: with a capital and an end.
std::string sentence(std::string_view text);

std::string bytesOf(Bytes bytes); ///< "26.33 GiB"
std::string msOf(double ms); ///< "56.30 ms"
std::string percentOf(double share); ///< 0 to 1: "6.2 %"

/// The kind of a number, behind the number: "simulated", "time model".
std::string tag(std::string_view kind);
std::string bytesTag(const StepInfo& info); ///< of bytes of tensors
std::string timesTag(const StepInfo& info); ///< of times

std::string categoryClass(Category category); ///< the class of the category's colour in resources/report.css

/// A part of a bar.
struct BarPart
{
    std::string cssClass; ///< class of the colour
    double share = 0; ///< of the bar's whole width
};
std::string bar(std::span<const BarPart> parts);

/// A table that a narrow screen shows as a list of blocks, a block for each row.
class Rows
{
public:
    struct Column
    {
        std::string title;
        bool isNumber = false;
    };
    explicit Rows(std::vector<Column> columns);
    void add(const std::vector<std::string>& cells); ///< HTML
    std::string text() const;

private:
    std::vector<Column> columns_;
    std::string rows_;
};

std::string section(std::string_view title, const std::string& content);
std::string paragraph(const std::string& content);
std::string list(std::span<const std::string> sentences); ///< each a sentence() of text
/// "and 12 modules more"; empty if all are shown.
std::string rest(std::size_t all, std::size_t most, std::string_view what);

// The sections of a report; empty: the report has nothing for the section.
std::string timelineSection(const Report& report);
std::string frontierSection(const Report& report);
std::string peakSection(const Report& report);
std::string planSection(const Report& report);
std::string changesSection(const Report& report);
std::string recordingSection(const Report& report);

} // namespace headroom::html
