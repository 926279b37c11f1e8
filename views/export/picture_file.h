// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <QSize>
#include <QString>

#include <filesystem>
#include <functional>
#include <string>

class QPainter;

namespace headroom {

/// A picture to draw, with its size in pixels at scale 1.
struct Picture
{
    QString title; ///< title of the document
    QSize size;
    double scale = 1; ///< factor of the pixels of a .png
    std::function<void(QPainter&)> paint;
};

/// Draws into memory, then replaces the file at once; the suffix of the path, case-insensitive, is the format. A .csv
/// is what `table` returns. Errors (badInput): another suffix or none, or a folder that is not writable.
Status writePicture(const Picture& picture, const std::function<std::string()>& table,
                    const std::filesystem::path& path);

} // namespace headroom
