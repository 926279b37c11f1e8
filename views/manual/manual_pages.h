// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStringList>

#include <vector>

namespace headroom {

/// A heading of a page and the text up to the next heading.
struct ManualSection
{
    QString title;
    QString anchor; ///< "two-formulations": the anchor that GitHub gives the heading
    int level = 1;
    QString words; ///< plain text of the section
};

/// A Markdown file of resources/manual.
struct ManualPage
{
    QString file; ///< "plan.md"
    QString title;
    QString markdown;
    std::vector<ManualSection> sections; ///< the first section is the page's title
};

/// A section that a search found.
struct ManualHit
{
    const ManualPage* page = nullptr;
    const ManualSection* section = nullptr;
    QString excerpt; ///< text around the first match

    QString link() const; ///< "plan.md#apply"
};

/// The manual's pages in the order of the contents, read once from the resources.
class ManualPages
{
public:
    static const ManualPages& all();

    const std::vector<ManualPage>& pages() const noexcept { return pages_; }
    const ManualPage* find(const QString& file) const; ///< null: no such page
    const ManualSection* findSection(const QString& link) const; ///< by "plan.md" or "plan.md#apply", else null

    /// The sections that contain all of the words, sections with the words in a title first.
    std::vector<ManualHit> search(const QString& words) const;

    /// The words of a search, without quotes and duplicates.
    static QStringList wordsOf(const QString& search);

private:
    ManualPages();

    std::vector<ManualPage> pages_;
};

/// The resource path of a page or picture of the manual.
QString manualResource(const QString& file);

/// The anchor of a heading as on GitHub, without the number that a second heading of the same text gets.
QString headingAnchor(const QString& heading);

} // namespace headroom
