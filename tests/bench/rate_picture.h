// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <compare>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace headroom {

/// Rates over size as an SVG picture, a panel for each group: what the model says as lines, what was published as dots.
class RatePicture
{
public:
    struct Panel
    {
        std::string title;
        std::string size; ///< what the horizontal axis counts
        std::string unit;

        auto operator<=>(const Panel&) const = default;
    };
    struct Point
    {
        double size = 0;
        double predicted = 0;
        double published = 0;
    };
    void add(const Panel& panel, const std::string& series, const Point& point);
    void write(const std::filesystem::path& file) const;

private:
    using Series = std::map<std::string, std::vector<Point>>;
    static std::string drawn(const Panel& panel, const Series& series);

    std::map<Panel, Series> panels_;
};

} // namespace headroom
