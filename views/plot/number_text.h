// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "views/plot/axis_map.h"

#include <QString>
#include <QVariant>

#include <concepts>
#include <string>

namespace headroom {

/// "44.5 GiB": in the largest unit that is not above the number.
QString bytesText(Bytes bytes, int decimals = 1);

/// "44.50": the number without the unit, in `unit`.
QString inUnit(Bytes bytes, const ByteUnit& unit, int decimals);

/// "576.18 ms", "0.42 ms", "12.30 s".
QString msText(double ms);

/// A number with digits in groups: "10,946".
template <std::integral Number>
QString countText(Number count)
{
    return QString::fromStdString(groupedDigits(static_cast<std::int64_t>(count)));
}

/// A ratio: "2.04", "31.7", "10,946".
QString ratioText(double ratio);

/// "NVIDIA GeForce RTX 4090" → "RTX 4090", "NVIDIA H100 80GB HBM3 (SXM)" → "H100 80GB".
QString shortCardTitle(QString title);
/// The short title of a GPU by the name of its DeviceSpec: "rtx-4090-24gb" → "RTX 4090"; an unknown name stays.
QString deviceTitle(const std::string& name);

/// Qt::TextAlignmentRole of a table's cell: numbers are at the right.
QVariant cellAlignment(bool isNumber);

/// A common unit for the labels of a time axis.
struct TimeUnit
{
    double ms = 1; ///< in one unit
    const char* name = "ms";
};
TimeUnit timeUnitFor(AxisRange ms) noexcept;

} // namespace headroom
