// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/number_text.h"

#include "core/cost/device_specs.h"

#include <QLocale>

#include <cmath>

namespace headroom {

QString bytesText(Bytes bytes, int decimals)
{
    return QString::fromStdString(formatBytes(bytes, decimals));
}

QString inUnit(Bytes bytes, const ByteUnit& unit, int decimals)
{
    return QString::number(static_cast<double>(bytes) / unit.bytes, 'f', decimals);
}

QString msText(double ms)
{
    if (std::abs(ms) >= 10'000)
        return QString::number(ms / 1000, 'f', 2) + QLatin1String(" s");
    return QString::number(ms, 'f', std::abs(ms) < 1 ? 3 : 2) + QLatin1String(" ms");
}

QString ratioText(double ratio)
{
    return QLocale::c().toString(ratio, 'f', ratio < 9.995 ? 2 : ratio < 99.95 ? 1 : 0);
}

QString shortCardTitle(QString title)
{
    for (const char* maker : {"NVIDIA ", "GeForce ", "Tesla "}) {
        if (title.startsWith(QLatin1String(maker)))
            title.remove(0, static_cast<qsizetype>(qstrlen(maker)));
    }
    return title.section(QStringLiteral(" HBM"), 0, 0);
}

QString deviceTitle(const std::string& name)
{
    const Result<DeviceSpec> device = findDeviceSpec(name);
    return device ? shortCardTitle(QString::fromStdString(device->title)) : QString::fromStdString(name);
}

QVariant cellAlignment(bool isNumber)
{
    return QVariant::fromValue(Qt::Alignment(isNumber ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
}

TimeUnit timeUnitFor(AxisRange ms) noexcept
{
    if (ms.end >= 10'000 && ms.length() >= 1000)
        return {1000, "s"};
    if (ms.end < 1)
        return {1e-3, "µs"};
    return {};
}

} // namespace headroom
