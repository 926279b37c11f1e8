// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <QObject>
#include <QString>

class QWidget;

namespace headroom {

class MessageBar;
class Session;
class Settings;

/// Writes what is open to files: the policy that training applies, and pictures or tables of the plots. Asks for the
/// file, and reports the outcome in the message bar.
class Exporter : public QObject
{
    Q_OBJECT
public:
    Exporter(Session& session, Settings& settings, MessageBar& messages, QWidget* window);

    void askPolicy(); ///< where to write the policy
    void askTimeline();
    void askTradeOff();
    void askFrontier();

    void setStackByModule(bool byModule) noexcept { stackByModule_ = byModule; } ///< of the timeline

    bool writePolicyTo(const QString& path); ///< false: it could not be written, and the message bar says why
    bool writeTimelineTo(const QString& path);
    bool writeTradeOffTo(const QString& path);
    bool writeFrontierTo(const QString& path);

private:
    QString ask(const QString& title, const QString& fileName, const QString& filter);
    QString askPicture(const QString& title, const QString& what);
    bool report(const Status& written, const QString& path);

    Session& session_;
    Settings& settings_;
    MessageBar& messages_;
    QWidget* window_;
    bool stackByModule_ = false;
};

} // namespace headroom
