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

/// The format by the suffix of the path, case-insensitive. Error (badInput): another suffix, or none.
Result<FileFormat> fileFormatOf(const std::filesystem::path& path);

/// A picture to draw, with its size in pixels at scale 1.
struct Picture
{
    QString title; ///< title of the document
    QSize size;
    double scale = 1; ///< factor of the pixels of a .png
    std::function<void(QPainter&)> paint;
};

/// Draws into memory, then replaces the file at once. Error (badInput): the folder is not writable.
Status writePicture(const Picture& picture, FileFormat format, const std::filesystem::path& path);
Status writeText(const std::string& text, const std::filesystem::path& path);

} // namespace headroom
