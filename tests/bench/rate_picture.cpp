// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/bench/rate_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace headroom {
namespace {

constexpr double width = 440;
constexpr double height = 250;
constexpr double left = 48;
constexpr double top = 30;
constexpr double right = 120; // names of series stand beside their lines
constexpr double bottom = 36;
constexpr int columns = 3;
// Okabe and Ito's colours, which everyone tells apart.
constexpr std::array colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

template <class... Values>
std::string text(const char* format, Values... values)
{
    std::array<char, 512> line{};
    std::snprintf(line.data(), line.size(), format, values...);
    return line.data();
}

/// 1, 2 or 5 times a power of ten, about a fifth of the range.
double tickOf(double most)
{
    const double rough = most / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double share = rough / power;
    return power * (share > 5 ? 10 : share > 2 ? 5 : share > 1 ? 2 : 1);
}

} // namespace

void RatePicture::add(const Panel& panel, const std::string& series, const Point& point)
{
    panels_[panel][series].push_back(point);
}

std::string RatePicture::drawn(const Panel& panel, const Series& series)
{
    double least = 1e300;
    double largest = 0;
    double most = 0;
    for (const auto& [name, points] : series)
        for (const Point& point : points) {
            least = std::min(least, std::log2(point.size));
            largest = std::max(largest, std::log2(point.size));
            most = std::max({most, point.predicted, point.published});
        }
    const auto x = [&](double size) {
        const double range = std::max(largest - least, 0.1);
        return left + (std::log2(size) - least) / range * (width - left - right);
    };
    const auto y = [&](double rate) { return height - bottom - rate / (1.05 * most) * (height - top - bottom); };
    std::string out = text("<text x=\"%g\" y=\"16\" font-weight=\"bold\">%s</text>\n", 8.0, panel.title.c_str());
    for (double tick = 0; tick <= 1.05 * most; tick += tickOf(most))
        out += text(
            "<path d=\"M%g %.1fH%g\" stroke=\"#ddd\"/><text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", left,
            y(tick), width - right, left - 4, y(tick) + 4, tick);
    for (double power = std::ceil(least); power <= largest + 1e-9; ++power)
        out += text("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n", x(std::exp2(power)), height - 20,
                    std::exp2(power));
    out += text("<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%s; %s</text>\n", width - right, height - 6,
                panel.size.c_str(), panel.unit.c_str());
    std::size_t colour = 0;
    for (auto [name, points] : series) {
        std::ranges::sort(points, {}, &Point::size);
        const char* const ink = colours[colour % colours.size()];
        std::string path;
        for (const Point& point : points) {
            path += text("%c%.1f %.1f", path.empty() ? 'M' : 'L', x(point.size), y(point.predicted));
            out += text("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x(point.size), y(point.published),
                        ink);
        }
        out += "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + ink + "\" stroke-width=\"1.5\"/>\n";
        out += text("<text x=\"%g\" y=\"%g\" fill=\"%s\">%s</text>\n", width - right + 12,
                    top + 8 + 13.0 * static_cast<double>(colour), ink, name.c_str());
        ++colour;
    }
    return out;
}

void RatePicture::write(const std::filesystem::path& file) const
{
    const auto rows = std::ceil(static_cast<double>(panels_.size()) / columns);
    std::ofstream out(file);
    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << columns * width << "\" height=\""
        << rows * height + 20
        << "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        << "<text x=\"8\" y=\"" << rows * height + 12 << "\">Lines: the time model `kernel`. Dots: published.</text>\n";
    int place = 0;
    for (const auto& [panel, series] : panels_) {
        out << "<g transform=\"translate(" << place % columns * width << ' ' << place / columns * height << ")\">\n"
            << drawn(panel, series) << "</g>\n";
        ++place;
    }
    out << "</svg>\n";
}

} // namespace headroom
