// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/report/report_parts.h"

#include "core/base/printable_text.h"
#include "core/cost/time_model.h"
#include "views/plot/number_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace headroom::html {

namespace {

constexpr std::size_t longestName = 160; ///< bytes

bool isInside(char c)
{
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; // of a character in UTF-8
}

std::string_view entityOf(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return {};
    }
}

std::string shortened(std::string_view text)
{
    if (text.size() <= longestName)
        return std::string(text);
    std::size_t head = longestName / 2;
    std::size_t tail = text.size() - longestName / 2;
    while (head > 0 && isInside(text[head]))
        --head;
    while (tail < text.size() && isInside(text[tail]))
        ++tail;
    return std::string(text.substr(0, head)) + "…" + std::string(text.substr(tail));
}

} // namespace

std::string escaped(std::string_view text)
{
    std::string made;
    for (const char c : printableText(text)) {
        const std::string_view entity = entityOf(c);
        made += entity.empty() ? std::string_view(&c, 1) : entity;
    }
    return made;
}

std::string nameOf(std::string_view name)
{
    return "<bdi>" + escaped(shortened(name)) + "</bdi>";
}

std::string sentence(std::string_view text)
{
    std::string made(text);
    if (made.empty())
        return made;
    made[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(made[0])));
    if (made.back() != '.')
        made += '.';
    return escaped(made);
}

std::string bytesOf(Bytes bytes)
{
    return formatBytes(bytes);
}

std::string msOf(double ms)
{
    return msText(ms).toStdString();
}

std::string percentOf(double share)
{
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.1f %%", 100 * share);
    return digits.data();
}

std::string tag(std::string_view kind)
{
    return " <span class=\"tag\">" + escaped(kind) + "</span>";
}

std::string bytesTag(const StepInfo& info)
{
    if (info.source == "snapshot")
        return tag("snapshot");
    return tag(info.simulated ? "simulated" : "measured");
}

std::string timesTag(const StepInfo& info)
{
    if (info.source == "snapshot")
        return tag("snapshot");
    const std::string times = timesOf(info);
    return tag(times == "measured" ? "measured" : times == "calibration" ? "calibrated" : "time model");
}

std::string categoryClass(Category category)
{
    std::string name(categoryName(category));
    std::ranges::replace(name, '_', '-');
    return "c-" + name;
}

std::string bar(std::span<const BarPart> parts)
{
    std::string made = "<svg class=\"bar\" aria-hidden=\"true\">";
    double begin = 0;
    std::array<char, 96> place{};
    for (const BarPart& part : parts) {
        std::snprintf(place.data(), place.size(), "<rect x=\"%.2f%%\" width=\"%.2f%%\" height=\"100%%\" class=\"",
                      100 * begin, 100 * part.share);
        made += place.data() + part.cssClass + "\"/>";
        begin += part.share;
    }
    return made + "</svg>";
}

Rows::Rows(std::vector<Column> columns)
    : columns_(std::move(columns))
{
}

void Rows::add(const std::vector<std::string>& cells)
{
    rows_ += "<tr>";
    for (std::size_t i = 0; i < columns_.size(); ++i)
        rows_ += std::string("<td") + (columns_[i].isNumber ? " class=\"number\"" : "") + " data-title=\""
            + escaped(columns_[i].title) + "\">" + cells[i] + "</td>";
    rows_ += "</tr>\n";
}

std::string Rows::text() const
{
    std::string made = "<table><thead><tr>";
    for (const Column& column : columns_)
        made += std::string("<th scope=\"col\"") + (column.isNumber ? " class=\"number\"" : "") + ">"
            + escaped(column.title) + "</th>";
    return made + "</tr></thead><tbody>\n" + rows_ + "</tbody></table>\n";
}

std::string section(std::string_view title, const std::string& content)
{
    return "<section>\n<h2>" + escaped(title) + "</h2>\n" + content + "</section>\n";
}

std::string paragraph(const std::string& content)
{
    return "<p>" + content + "</p>\n";
}

std::string list(std::span<const std::string> sentences)
{
    std::string made = "<ul>\n";
    for (const std::string& text : sentences)
        made += "<li>" + sentence(text) + "</li>\n";
    return made + "</ul>\n";
}

std::string rest(std::size_t all, std::size_t most, std::string_view what)
{
    if (all <= most)
        return {};
    return "<p class=\"note\">and " + groupedDigits(static_cast<std::int64_t>(all - most)) + ' ' + std::string(what)
        + " more</p>\n";
}

} // namespace headroom::html
