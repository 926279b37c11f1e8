// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

class QDBusVariant;

namespace headroom {

/// The desktop's preference for light or dark: the color-scheme of the XDG settings portal if there is one, else the
/// lightness of Qt's palette at start. Qt 6.4 has no QStyleHints::colorScheme().
class DesktopLook : public QObject
{
    Q_OBJECT
public:
    explicit DesktopLook(QObject* parent = nullptr);

    bool isDark() const noexcept { return dark_; }

Q_SIGNALS:
    void changed(bool dark);

private Q_SLOTS:
    void settingChanged(const QString& group, const QString& key, const QDBusVariant& value);

private:
    void setScheme(uint scheme);

    bool platformDark_ = false;
    bool dark_ = false;
};

} // namespace headroom
