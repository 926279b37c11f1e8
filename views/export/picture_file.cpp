// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/export/picture_file.h"

#include "core/base/atomic_write.h"

#include <QBuffer>
#include <QImage>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QSvgGenerator>

#include <algorithm>
#include <string>

namespace headroom {
namespace {

// Fonts and lines are sized in pixels: at this resolution one pixel of the picture is one of the page.
constexpr int pixelsPerInch = 96;
constexpr double pointsPerPixel = 72.0 / pixelsPerInch;

Status write(const QByteArray& bytes, const std::filesystem::path& path)
{
    return writeAtomically(path, {bytes.constData(), static_cast<std::size_t>(bytes.size())});
}

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

Result<FileFormat> fileFormatOf(const std::filesystem::path& path)
{
    std::string suffix = path.extension().string();
    std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (suffix == ".svg")
        return FileFormat::svg;
    if (suffix == ".pdf")
        return FileFormat::pdf;
    if (suffix == ".png")
        return FileFormat::png;
    if (suffix == ".csv")
        return FileFormat::csv;
    return badInput(path.string() + ": the suffix decides the format: expected .svg, .pdf, .png or .csv");
}

Status writePicture(const Picture& picture, FileFormat format, const std::filesystem::path& path)
{
    switch (format) {
    case FileFormat::svg:
        return write(svg(picture), path);
    case FileFormat::pdf:
        return write(pdf(picture), path);
    case FileFormat::png:
        return write(png(picture), path);
    case FileFormat::csv:
        break;
    }
    return Error{ErrorKind::internal, path.string() + ": a table is not a picture"};
}

Status writeText(const std::string& text, const std::filesystem::path& path)
{
    return writeAtomically(path, text);
}

} // namespace headroom
