// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPixmap>

#include <functional>

class QPainter;
class QWidget;

namespace headroom {

struct Theme;

/// Caches the part of a widget that does not change from paint to paint. The picture covers the whole widget, and is
/// painted again at another size, pixel density or theme.
class KeptPicture
{
public:
    /// `make` paints in the widget's coordinates, on the card's colour.
    void paint(QPainter& painter, const QWidget& widget, const std::function<void(QPainter&)>& make);
    void forget() { picture_ = {}; }

private:
    QPixmap picture_;
    const Theme* theme_ = nullptr;
};

} // namespace headroom
