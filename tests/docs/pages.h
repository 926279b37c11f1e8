// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace headroom::docs {

/// One Markdown file, or a text in place of one.
struct Page
{
    std::filesystem::path file; ///< from the root of the repository
    std::string text;
};

/// A line of a listing.
struct Command
{
    std::string place; ///< "resources/manual/plan.md:12"
    std::vector<std::string> words;
};

std::filesystem::path root(); ///< of the repository
Page readPage(const std::filesystem::path& file);
std::vector<Page> manualPages(); ///< of resources/manual
std::vector<Page> allPages(); ///< and README.md

/// Anchors of a page's headings, as code hosts make them.
std::set<std::string> anchors(const std::string& text);

/// Targets of links and pictures with the line that they are on.
std::vector<std::pair<int, std::string>> links(const std::string& text);

/// Lines of listings that begin with one of the programs, with what goes on in the next line joined. What is indented is
/// a drawing.
std::vector<Command> commands(const Page& page, const std::set<std::string>& programs);

/// By the name of each section of level 2: the options that the first cells of its tables name.
std::map<std::string, std::set<std::string>> optionTables(const std::string& text);

/// Paths of the repository that a page names in backticks.
std::vector<std::pair<int, std::string>> namedPaths(const std::string& text);

/// Sentences about links that lead nowhere. Those of the manual have to stay in it: the program has no other file.
std::vector<std::string> deadLinks(const std::vector<Page>& pages);

} // namespace headroom::docs
