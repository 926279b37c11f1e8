// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/sentence.h"

namespace headroom {

QString sentence(const QString& message)
{
    QString text = message.trimmed();
    if (text.isEmpty())
        return text;
    const QString firstWord = text.section(QLatin1Char(' '), 0, 0);
    bool isName = false; // demo:mlp, step.hrs, /home/me/step.hrs
    for (const QChar c : firstWord.chopped(firstWord.endsWith(QLatin1Char(':')) ? 1 : 0))
        isName = isName || !c.isLetter();
    if (!isName)
        text[0] = text[0].toUpper();
    if (!text.endsWith(QLatin1Char('.')))
        text += QLatin1Char('.');
    return text;
}

} // namespace headroom
