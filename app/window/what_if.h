// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/recording.h"

#include <QMap>
#include <QTemporaryDir>
#include <QTimer>

#include <memory>

namespace headroom {

class Session;
class SizeFields;

/// The open step at other sizes, as the fields in the header ask, or for another card: records it again with the same
/// options, in the background. The latest wish wins, and the step stays what it is until the recording is complete. The
/// recordings are gone when the window closes.
class WhatIf : public QObject
{
    Q_OBJECT
public:
    WhatIf(Session& session, SizeFields& fields, QString recorder, QString folder, QObject* parent = nullptr);

    inline static const QString card = QStringLiteral("gpu");

    void want(const QString& what, const QString& value); ///< a dimension, or the card
    void cancel(); ///< forgets the wish
    bool running() const noexcept { return recording_.running() || soon_.isActive(); }

Q_SIGNALS:
    void recorded(const QString& path, const QString& sizes, const QString& card); ///< "batch 64"; empty: the same card
    void failed(const QString& reason);

private:
    void begin();
    void showStep(); ///< what the fields say of the open step
    void showProgress(double share);
    void start();
    bool wantsTheSame() const; ///< the step has these sizes already
    QString sizesText() const;

    Session& session_;
    SizeFields& fields_;
    QString recorder_;
    QString folder_;
    std::unique_ptr<QTemporaryDir> place_; ///< of the recordings
    Recording recording_;
    QTimer soon_; ///< while the user goes on typing
    QMap<QString, QString> wanted_; ///< by dimension, and the card
    bool again_ = false; ///< the wish changed while the last one was being ended
};

/// Arguments of `torch-headroom record` with one option set to another value.
QStringList withOption(QStringList arguments, const QString& option, const QString& value);

} // namespace headroom
