// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/theme/desktop_look.h"

#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusPendingCallWatcher>
#include <QDBusPendingReply>
#include <QDBusVariant>
#include <QGuiApplication>
#include <QPalette>

namespace headroom {
namespace {

const auto portal = QStringLiteral("org.freedesktop.portal.Desktop");
const auto portalPath = QStringLiteral("/org/freedesktop/portal/desktop");
const auto settings = QStringLiteral("org.freedesktop.portal.Settings");
const auto appearance = QStringLiteral("org.freedesktop.appearance");
const auto colorScheme = QStringLiteral("color-scheme");

// Read() wraps its answer in one variant more than SettingChanged does.
QVariant unwrapped(QVariant value)
{
    while (value.canConvert<QDBusVariant>())
        value = value.value<QDBusVariant>().variant();
    return value;
}

} // namespace

DesktopLook::DesktopLook(QObject* parent)
    : QObject(parent)
    , platformDark_(QGuiApplication::palette().color(QPalette::Window).lightness() < 128)
    , dark_(platformDark_)
{
    auto bus = QDBusConnection::sessionBus();
    if (!bus.isConnected())
        return;
    bus.connect(portal, portalPath, settings, QStringLiteral("SettingChanged"), this,
                SLOT(settingChanged(QString, QString, QDBusVariant)));
    auto question = QDBusMessage::createMethodCall(portal, portalPath, settings, QStringLiteral("Read"));
    question << appearance << colorScheme;
    auto* answer = new QDBusPendingCallWatcher(bus.asyncCall(question), this);
    connect(answer, &QDBusPendingCallWatcher::finished, this, [this, answer] {
        const QDBusPendingReply<QVariant> reply = *answer;
        if (reply.isValid())
            setScheme(unwrapped(reply.value()).toUInt());
        answer->deleteLater();
    });
}

void DesktopLook::settingChanged(const QString& group, const QString& key, const QDBusVariant& value)
{
    if (group == appearance && key == colorScheme)
        setScheme(unwrapped(value.variant()).toUInt());
}

void DesktopLook::setScheme(uint scheme)
{
    // 1: dark, 2: light, 0: no preference.
    const bool dark = scheme == 1 || (scheme != 2 && platformDark_);
    if (dark == dark_)
        return;
    dark_ = dark;
    Q_EMIT changed(dark_);
}

} // namespace headroom
