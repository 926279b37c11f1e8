// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/export/picture_file.h"

#include "core/base/atomic_write.h"
#include "views/theme/theme.h"

#include <QBuffer>
#include <QImage>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QSvgGenerator>

#include <map>

namespace headroom {
namespace {

// Fonts and lines are sized in pixels: at this resolution one pixel of the picture is one of the page.
constexpr int pixelsPerInch = 96;
constexpr double pointsPerPixel = 72.0 / pixelsPerInch;

struct Picture
{
    QString title;
    QSize size; ///< in pixels at scale 1
    double scale = 1;
    std::function<void(QPainter&)> paint;
};

QByteArray svg(const Picture& picture)
{
    QBuffer buffer;
    QSvgGenerator generator;
    generator.setOutputDevice(&buffer);
    generator.setResolution(pixelsPerInch);
    generator.setSize(picture.size);
    generator.setViewBox(QRect(QPoint(0, 0), picture.size));
    generator.setTitle(picture.title);
    generator.setDescription(QStringLiteral("Drawn by Headroom"));
    QPainter painter(&generator);
    picture.paint(painter);
    painter.end();
    return buffer.data();
}

QByteArray pdf(const Picture& picture)
{
    QBuffer buffer;
    buffer.open(QIODevice::WriteOnly);
    QPdfWriter writer(&buffer);
    writer.setTitle(picture.title);
    writer.setCreator(QStringLiteral("Headroom"));
    writer.setResolution(pixelsPerInch);
    writer.setPageSize(QPageSize(QSizeF(picture.size) * pointsPerPixel, QPageSize::Point, {}, QPageSize::ExactMatch));
    writer.setPageMargins({});
    QPainter painter(&writer);
    picture.paint(painter);
    painter.end();
    return buffer.data();
}

QByteArray png(const Picture& picture)
{
    QImage image((QSizeF(picture.size) * picture.scale).toSize(), QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(picture.scale);
    image.fill(Qt::transparent);
    QPainter painter(&image);
    picture.paint(painter);
    painter.end();
    image.setText(QStringLiteral("Title"), picture.title);
    QBuffer buffer;
    image.save(&buffer, "PNG");
    return buffer.data();
}

} // namespace

Status writePicture(const std::string& title, const ExportOptions& options, const std::function<void(QPainter&)>& paint,
                    const std::function<std::string()>& table, const std::filesystem::path& path)
{
    using Draw = QByteArray (*)(const Picture&);
    static const std::map<QString, Draw> formats{
        {QStringLiteral(".svg"), svg}, {QStringLiteral(".pdf"), pdf}, {QStringLiteral(".png"), png}};
    const QString suffix = QString::fromStdString(path.extension().string()).toLower();
    if (suffix == QLatin1String(".csv"))
        return writeAtomically(path, table());
    const auto format = formats.find(suffix);
    if (format == formats.end())
        return badInput(path.string() + ": the suffix decides the format: expected .svg, .pdf, .png or .csv");
    loadFonts();
    const QByteArray bytes
        = format->second({QString::fromStdString(title), QSize(options.width, options.height), options.scale, paint});
    return writeAtomically(path, {bytes.constData(), static_cast<std::size_t>(bytes.size())});
}

} // namespace headroom
