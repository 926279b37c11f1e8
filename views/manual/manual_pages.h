// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStringList>

#include <vector>

namespace headroom {

/// A heading of a page and the words under it, up to the next one.
struct ManualSection
{
    QString title;
    QString anchor; ///< "two-formulations", as code hosts name headings
    int level = 1;
    QString words; ///< plain text
};

/// One Markdown file of resources/manual.
struct ManualPage
{
    QString file; ///< "plan.md"
    QString title;
    QString markdown;
    std::vector<ManualSection> sections; ///< the first one is the page's title
};

/// A section that has what was looked for.
struct ManualHit
{
    const ManualPage* page = nullptr;
    const ManualSection* section = nullptr;
    QString excerpt; ///< words around the first place

    QString link() const; ///< "plan.md#apply"
};

/// The manual in the resources, read once, in the order of its contents.
class ManualPages
{
public:
    static const ManualPages& all();

    const std::vector<ManualPage>& pages() const noexcept { return pages_; }
    const ManualPage* find(const QString& file) const; ///< null: there is none
    const ManualSection* findSection(const QString& link) const; ///< of "plan.md" or "plan.md#apply"; null: none

    /// Sections that have all of these words, those with the words in a title first.
    std::vector<ManualHit> search(const QString& words) const;

    /// Words of a search, without quotes and doubles.
    static QStringList wordsOf(const QString& search);

private:
    ManualPages();

    std::vector<ManualPage> pages_;
};

/// Where a page or picture of the manual is in the resources.
QString manualResource(const QString& file);

/// The anchor of a heading as code hosts make it, without the number that a second one of the same words gets.
QString headingAnchor(const QString& heading);

} // namespace headroom
