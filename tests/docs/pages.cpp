// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/docs/pages.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <sstream>
#include <utility>

namespace headroom::docs {
namespace {

namespace fs = std::filesystem;

const fs::path manualFolder = "resources/manual";

/// Calls see(number, line, in a listing) for each line but those that begin and end a listing.
void eachLine(const std::string& text, const std::function<void(int, const std::string&, bool)>& see)
{
    std::istringstream in(text);
    std::string line;
    bool listing = false;
    for (int number = 1; std::getline(in, line); ++number) {
        if (line.starts_with("```"))
            listing = !listing;
        else
            see(number, line, listing);
    }
}

std::string headingOf(const std::string& line)
{
    const std::size_t level = line.find_first_not_of('#');
    return level > 0 && level < line.size() && line[level] == ' ' ? line.substr(level + 1) : std::string();
}

std::string anchorOf(const std::string& heading)
{
    std::string anchor;
    for (const char character : heading) {
        const auto c = static_cast<unsigned char>(character);
        if (std::isalnum(c) != 0 || c == '-' || c == '_' || c >= 0x80)
            anchor += static_cast<char>(std::tolower(c));
        else if (c == ' ')
            anchor += '-';
    }
    return anchor;
}

std::vector<std::string> matches(const std::string& line, const std::regex& pattern)
{
    std::vector<std::string> found;
    for (std::sregex_iterator match(line.begin(), line.end(), pattern), end; match != end; ++match)
        found.push_back((*match)[1]);
    return found;
}

std::string withoutCode(const std::string& line)
{
    static const std::regex code("`[^`]*`");
    return std::regex_replace(line, code, "");
}

/// Words as a shell sees them; a comment ends them.
std::vector<std::string> shellWords(const std::string& line)
{
    std::vector<std::string> words;
    std::string word;
    char quote = 0;
    bool open = false;
    for (const char character : line) {
        if (quote == 0 && (character == ' ' || character == '\t')) {
            if (open)
                words.push_back(std::exchange(word, {}));
            open = false;
            continue;
        }
        if (quote == 0 && !open && character == '#')
            return words;
        if (character == quote)
            quote = 0;
        else if (quote == 0 && (character == '\'' || character == '"'))
            quote = character;
        else
            word += character;
        open = true;
    }
    if (open)
        words.push_back(word);
    return words;
}

} // namespace

fs::path root()
{
    return HEADROOM_SOURCE_DIR;
}

Page readPage(const fs::path& file)
{
    std::ifstream in(root() / file);
    return {file, std::string(std::istreambuf_iterator<char>(in), {})};
}

std::vector<Page> manualPages()
{
    std::vector<Page> pages;
    for (const fs::directory_entry& entry : fs::directory_iterator(root() / manualFolder)) {
        if (entry.path().extension() == ".md")
            pages.push_back(readPage(manualFolder / entry.path().filename()));
    }
    std::ranges::sort(pages, {}, &Page::file);
    return pages;
}

std::vector<Page> allPages()
{
    std::vector<Page> pages = manualPages();
    pages.push_back(readPage("README.md"));
    return pages;
}

std::set<std::string> anchors(const std::string& text)
{
    std::set<std::string> found;
    eachLine(text, [&](int, const std::string& line, bool listing) {
        const std::string heading = listing ? std::string() : headingOf(line);
        if (heading.empty())
            return;
        const std::string anchor = anchorOf(heading);
        for (int number = 0; !found.insert(number == 0 ? anchor : anchor + '-' + std::to_string(number)).second;)
            ++number;
    });
    return found;
}

std::vector<std::pair<int, std::string>> links(const std::string& text)
{
    static const std::regex pattern(R"(\]\(([^()\s]+)\))");
    std::vector<std::pair<int, std::string>> found;
    // A link's words may end in the next line, so that its brackets are looked for, not its beginning.
    eachLine(text, [&](int number, const std::string& line, bool listing) {
        if (listing)
            return;
        for (std::string& target : matches(withoutCode(line), pattern))
            found.emplace_back(number, std::move(target));
    });
    return found;
}

std::vector<Command> commands(const Page& page, const std::set<std::string>& programs)
{
    std::vector<Command> found;
    std::string before; // of a line that goes on
    eachLine(page.text, [&](int number, const std::string& given, bool listing) {
        std::string line = before + (before.empty() && given.starts_with("$ ") ? given.substr(2) : given);
        before.clear();
        if (!listing)
            return;
        if (line.ends_with('\\')) {
            before = line.substr(0, line.size() - 1);
            return;
        }
        std::vector<std::string> words = shellWords(line);
        if (!words.empty() && line.starts_with(words.front()) && programs.contains(words.front()))
            found.push_back({page.file.generic_string() + ':' + std::to_string(number), std::move(words)});
    });
    return found;
}

std::map<std::string, std::set<std::string>> optionTables(const std::string& text)
{
    static const std::regex option(R"((?:`|, )(--?[A-Za-z][A-Za-z-]*))");
    std::map<std::string, std::set<std::string>> tables;
    std::string section;
    eachLine(text, [&](int, const std::string& line, bool listing) {
        if (listing)
            return;
        if (line.starts_with("## "))
            tables[section = line.substr(3)];
        if (!line.starts_with("| `-"))
            return;
        const std::string cell = line.substr(1, line.find(" | "));
        for (std::string& name : matches(cell, option))
            tables[section].insert(std::move(name));
    });
    return tables;
}

std::vector<std::pair<int, std::string>> namedPaths(const std::string& text)
{
    static const std::regex path(R"(`((?:app|core|packaging|resources|tests|views)/[A-Za-z0-9_./-]+)`)");
    std::vector<std::pair<int, std::string>> found;
    eachLine(text, [&](int number, const std::string& line, bool listing) {
        if (listing)
            return;
        for (std::string& name : matches(line, path))
            found.emplace_back(number, std::move(name));
    });
    return found;
}

std::vector<std::string> deadLinks(const std::vector<Page>& pages)
{
    std::vector<std::string> problems;
    for (const Page& page : pages) {
        const bool inManual = page.file.parent_path() == manualFolder;
        for (const auto& [line, link] : links(page.text)) {
            const std::string place = page.file.generic_string() + ':' + std::to_string(line) + ": " + link;
            const std::size_t hash = link.find('#');
            const std::string name = link.substr(0, hash);
            const fs::path target = name.empty() ? page.file : (page.file.parent_path() / name).lexically_normal();
            const std::string where = target.generic_string();
            if (inManual && !where.starts_with(manualFolder.generic_string() + '/')) {
                problems.push_back(place + " leaves the manual");
                continue;
            }
            const auto known = std::ranges::find(pages, target, &Page::file);
            if (known == pages.end() && !fs::exists(root() / target))
                problems.push_back(place + " is not there");
            else if (hash != std::string::npos
                     && !anchors(known == pages.end() ? readPage(target).text : known->text)
                             .contains(link.substr(hash + 1)))
                problems.push_back(place + " has no such heading");
        }
    }
    return problems;
}

} // namespace headroom::docs
