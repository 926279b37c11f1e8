// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <QSize>
#include <QString>

#include <filesystem>
#include <functional>

class QPainter;

namespace headroom {

enum class FileFormat { svg, pdf, png, csv };

/// By the suffix of the path, case-insensitive. Error: another suffix, or none.
Result<FileFormat> fileFormatOf(const std::filesystem::path& path);

/// What is to be drawn, and on how many pixels (at scale 1).
struct Picture
{
    QString title; ///< of the document
    QSize size;
    double scale = 1; ///< of .png
    std::function<void(QPainter&)> paint;
};

/// Draws into memory and then replaces the file at once. Error: the folder cannot be written to.
Status writePicture(const Picture& picture, FileFormat format, const std::filesystem::path& path);
Status writeText(const std::string& text, const std::filesystem::path& path);

} // namespace headroom
