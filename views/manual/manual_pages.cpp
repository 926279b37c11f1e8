// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/manual/manual_pages.h"

#include <QFile>
#include <QHash>
#include <QRegularExpression>
#include <QTextBlock>
#include <QTextDocument>

#include <algorithm>

// Resources of a static library must be pulled in by name, outside of any namespace.
static void initialiseManual()
{
    Q_INIT_RESOURCE(manual);
}

namespace headroom {
namespace {

constexpr int excerptBefore = 24;
constexpr int excerptLength = 80;
constexpr int pageTitlePoints = 200;
constexpr int titlePoints = 100;

QString readResource(const QString& file)
{
    QFile source(manualResource(file));
    return source.open(QIODevice::ReadOnly) ? QString::fromUtf8(source.readAll()) : QString();
}

/// The text of a block as a line, without the characters that stand for pictures.
QString lineOf(const QTextBlock& block)
{
    return block.text().remove(QChar::ObjectReplacementCharacter).simplified();
}

std::vector<ManualSection> sectionsOf(const QString& markdown)
{
    QTextDocument document;
    document.setMarkdown(markdown, QTextDocument::MarkdownDialectGitHub);
    std::vector<ManualSection> sections;
    QHash<QString, int> seen;
    for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
        const QString line = lineOf(block);
        if (const int level = block.blockFormat().headingLevel(); level > 0) {
            QString anchor = headingAnchor(line);
            if (const int before = seen[anchor]++; before > 0)
                anchor += QLatin1Char('-') + QString::number(before);
            sections.push_back({line, anchor, level, {}});
        } else if (!sections.empty() && !line.isEmpty()) {
            QString& words = sections.back().words;
            words += words.isEmpty() ? line : QLatin1Char(' ') + line;
        }
    }
    return sections;
}

ManualPage readPage(const QString& file)
{
    ManualPage page{file, {}, readResource(file), {}};
    page.sections = sectionsOf(page.markdown);
    if (!page.sections.empty())
        page.title = page.sections.front().title;
    return page;
}

QString excerptAround(const QString& words, const QString& first)
{
    const qsizetype place = std::max<qsizetype>(0, words.indexOf(first, 0, Qt::CaseInsensitive));
    qsizetype begin = std::max<qsizetype>(0, place - excerptBefore);
    if (begin > 0) { // at the beginning of a word
        const qsizetype blank = words.indexOf(QLatin1Char(' '), begin);
        begin = blank >= 0 && blank < place ? blank + 1 : place;
    }
    const QString more = QStringLiteral("…");
    const bool goesOn = begin + excerptLength < words.size();
    return (begin > 0 ? more : QString()) + words.mid(begin, excerptLength) + (goesOn ? more : QString());
}

/// The rank of a section in a search; 0: some words are missing.
int points(const ManualPage& page, const ManualSection& section, const QStringList& words)
{
    const bool isPageTitle = &section == &page.sections.front();
    int sum = 0;
    for (const QString& word : words) {
        const bool inTitle = section.title.contains(word, Qt::CaseInsensitive);
        const auto count = static_cast<int>(section.words.count(word, Qt::CaseInsensitive));
        if (!inTitle && count == 0)
            return 0;
        sum += count + (inTitle ? (isPageTitle ? pageTitlePoints : titlePoints) : 0);
    }
    return sum;
}

} // namespace

QString manualResource(const QString& file)
{
    return QStringLiteral(":/headroom/manual/") + file;
}

QString headingAnchor(const QString& heading)
{
    QString anchor;
    for (const QChar character : heading.toLower()) {
        if (character.isLetterOrNumber() || character == QLatin1Char('-') || character == QLatin1Char('_'))
            anchor += character;
        else if (character == QLatin1Char(' '))
            anchor += QLatin1Char('-');
    }
    return anchor;
}

QString ManualHit::link() const
{
    return page->file + QLatin1Char('#') + section->anchor;
}

const ManualPages& ManualPages::all()
{
    static const ManualPages pages;
    return pages;
}

ManualPages::ManualPages()
{
    initialiseManual();
    static const QRegularExpression entry(QStringLiteral(R"(^- \[[^\]]+\]\(([^)#]+\.md)\))"),
                                          QRegularExpression::MultilineOption);
    auto found = entry.globalMatch(readResource(QStringLiteral("README.md")));
    while (found.hasNext())
        pages_.push_back(readPage(found.next().captured(1)));
}

const ManualPage* ManualPages::find(const QString& file) const
{
    const auto page = std::ranges::find(pages_, file, &ManualPage::file);
    return page == pages_.end() ? nullptr : &*page;
}

const ManualSection* ManualPages::findSection(const QString& link) const
{
    const QStringList parts = link.split(QLatin1Char('#'));
    const ManualPage* page = find(parts.first());
    if (!page || page->sections.empty())
        return nullptr;
    if (parts.size() == 1)
        return &page->sections.front();
    const auto section = std::ranges::find(page->sections, parts.at(1), &ManualSection::anchor);
    return section == page->sections.end() ? nullptr : &*section;
}

QStringList ManualPages::wordsOf(const QString& search)
{
    QStringList words = QString(search).remove(QLatin1Char('"')).split(QLatin1Char(' '), Qt::SkipEmptyParts);
    words.removeDuplicates();
    return words;
}

std::vector<ManualHit> ManualPages::search(const QString& text) const
{
    const QStringList words = wordsOf(text);
    if (words.isEmpty())
        return {};
    std::vector<std::pair<int, ManualHit>> found;
    for (const ManualPage& page : pages_) {
        for (const ManualSection& section : page.sections) {
            if (const int sum = points(page, section, words); sum > 0)
                found.emplace_back(sum, ManualHit{&page, &section, excerptAround(section.words, words.first())});
        }
    }
    std::ranges::stable_sort(found, std::ranges::greater(), &std::pair<int, ManualHit>::first);
    std::vector<ManualHit> hits;
    for (auto& [sum, hit] : found)
        hits.push_back(std::move(hit));
    return hits;
}

} // namespace headroom
