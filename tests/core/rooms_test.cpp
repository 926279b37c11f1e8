// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The rooms of the house and who may know whom, proven on the includes of the source tree. A file knows its own room
// and the rooms that the table names, nothing else; so data can flow only model → step → trace → plan → view.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

/// What a room may include besides the standard library, nlohmann/json, Boost, GLPK and CLI11.
enum class Foreign { nothing, torch, qt };

struct Room
{
    Foreign foreign = Foreign::nothing;
    Names mayInclude;
};

const Names coreRooms{"core/base",  "core/trace",   "core/timeline", "core/allocator", "core/cost",
                      "core/sac",   "core/plan",    "core/predict",  "core/policy",    "core/snapshot",
                      "core/joint", "core/compare", "core/profile",  "core/fit"};

Names operator+(Names left, const Names& right)
{
    left.insert(right.begin(), right.end());
    return left;
}

const std::map<std::string, Room>& rooms()
{
    using enum Foreign;
    static const std::map<std::string, Room> table{
        // headroom_core: neither Qt nor libtorch.
        {"core/base", {nothing, {}}},
        {"core/trace", {nothing, {"core/base"}}},
        {"core/timeline", {nothing, {"core/base", "core/trace", "core/cost"}}},
        {"core/allocator", {nothing, {"core/base", "core/trace", "core/timeline"}}},
        {"core/snapshot", {nothing, {"core/base", "core/trace", "core/allocator"}}},
        {"core/cost", {nothing, {"core/base", "core/trace"}}},
        {"core/profile", {nothing, {"core/base", "core/trace", "core/cost", "core/snapshot"}}},
        {"core/sac", {nothing, {"core/base", "core/trace", "core/timeline", "core/cost"}}},
        {"core/plan", {nothing, {"core/base", "core/sac"}}},
        {"core/cupti", {nothing, {"core/base", "core/trace"}}},
        {"core/predict", {nothing, {"core/base", "core/trace", "core/timeline", "core/cost"}}},
        {"core/compare",
         {nothing, {"core/base", "core/trace", "core/timeline", "core/allocator", "core/snapshot", "core/predict"}}},
        {"core/policy",
         {nothing,
          {"core/base", "core/trace", "core/timeline", "core/allocator", "core/cost", "core/sac", "core/plan",
           "core/predict"}}},
        {"core/joint",
         {nothing,
          {"core/base", "core/trace", "core/timeline", "core/sac", "core/plan", "core/predict", "core/policy"}}},
        {"core/fit",
         {nothing,
          {"core/base", "core/trace", "core/timeline", "core/allocator", "core/cost", "core/predict", "core/policy"}}},
        // headroom_torch: libtorch, never Qt. Models tell the recorder of their modules.
        {"core/device", {torch, {"core/base", "core/trace", "core/allocator", "core/cost", "core/cupti"}}},
        {"core/device/kernels", {torch, {"core/base", "core/trace", "core/allocator", "core/cost", "core/device"}}},
        {"core/cuda", {torch, {"core/base", "core/cost", "core/cupti", "core/device"}}},
        {"core/record", {torch, {"core/base", "core/trace", "core/cost", "core/cupti", "core/device"}}},
        {"core/checkpoint",
         {torch,
          {"core/base", "core/trace", "core/timeline", "core/cost", "core/predict", "core/policy", "core/joint",
           "core/device", "core/record", "core/model"}}},
        {"core/model", {torch, {"core/base", "core/trace", "core/cost", "core/device", "core/record"}}},
        {"core/model/exported", {torch, {"core/base", "core/trace", "core/device", "core/record", "core/model"}}},
        {"app/python", {torch, coreRooms + Names{"core/device", "core/record"}}},
        {"app/record", {torch, coreRooms + Names{"core/device", "core/record", "core/checkpoint", "core/model"}}},
        // Views: Qt and core's results, never libtorch.
        {"views/theme", {qt, coreRooms}},
        {"views/models", {qt, coreRooms + Names{"views/theme", "views/plot"}}},
        {"views/plot", {qt, coreRooms + Names{"views/theme"}}},
        {"views/widgets", {qt, coreRooms + Names{"views/theme", "views/plot", "views/models"}}},
        {"views/export", {qt, coreRooms + Names{"views/theme", "views/plot", "views/widgets"}}},
        {"views/report", {qt, coreRooms + Names{"views/theme", "views/plot"}}},
        {"views/manual", {qt, {"views/theme"}}},
        {"app/recording", {qt, coreRooms + Names{"views/theme", "views/widgets"}}},
        {"app/window",
         {qt,
          coreRooms
              + Names{"views/theme", "views/models", "views/plot", "views/widgets", "views/manual", "views/export",
                      "views/report", "app/recording"}}},
        {"app/cli", {qt, coreRooms + Names{"views/export", "views/report", "app/recording", "app/window"}}},
        {"app", {qt, {"app/cli", "app/window"}}},
    };
    return table;
}

struct Include
{
    std::string file; ///< that holds it, from the repository root
    int line = 0;
    std::string target; ///< between the quotes or brackets
    bool quoted = false;
};

/// The room of a file, by its path from the repository root. A folder inside a room is one of its own.
std::string roomOf(const fs::path& file)
{
    return file.parent_path().generic_string();
}

/// All includes of the sources below app, core and views, by room.
std::map<std::string, std::vector<Include>> includesByRoom()
{
    static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
    const fs::path root = HEADROOM_SOURCE_DIR;
    std::map<std::string, std::vector<Include>> found;
    for (const char* top : {"app", "core", "views"}) {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
            const std::string extension = entry.path().extension().string();
            if (!entry.is_regular_file() || (extension != ".h" && extension != ".cpp" && extension != ".in"))
                continue;
            const fs::path file = fs::relative(entry.path(), root);
            std::vector<Include>& includes = found[roomOf(file)];
            std::ifstream in(entry.path());
            std::string text;
            for (int line = 1; std::getline(in, text); ++line) {
                std::smatch match;
                if (std::regex_search(text, match, pattern))
                    includes.push_back({file.generic_string(), line, match[2], match[1] == "\""});
            }
        }
    }
    return found;
}

bool isTorch(const std::string& target)
{
    return std::regex_search(target, std::regex("^(torch|ATen|c10|caffe2)/"));
}

bool isQt(const std::string& target)
{
    return std::regex_search(target, std::regex("^(Qt[A-Z][A-Za-z]*/|Q[A-Z]|qt|ui_)"));
}

TEST(Rooms, EveryFolderWithSourcesIsInTheTable)
{
    const auto found = includesByRoom();
    ASSERT_GT(found.size(), 10U) << "the source tree was not found at " << HEADROOM_SOURCE_DIR;
    for (const auto& [room, includes] : found)
        EXPECT_TRUE(rooms().contains(room)) << room << " is not a room of the table in this test";
}

TEST(Rooms, AFileIncludesOnlyRoomsThatItsRoomMayKnow)
{
    for (const auto& [room, includes] : includesByRoom()) {
        const auto row = rooms().find(room);
        if (row == rooms().end())
            continue; // reported by the test above
        for (const Include& include : includes) {
            if (!include.quoted)
                continue;
            const std::string target = roomOf(include.target);
            EXPECT_TRUE(target == room || row->second.mayInclude.contains(target))
                << include.file << ':' << include.line << ": " << room << " must not know " << include.target;
            EXPECT_TRUE(fs::exists(fs::path(HEADROOM_SOURCE_DIR) / include.target))
                << include.file << ':' << include.line << ": includes are named from the repository root";
        }
    }
}

/// Two classes of one name would be one for the linker, which keeps the functions of either.
TEST(Rooms, AClassOfAHeaderHasItsNameAlone)
{
    const std::regex definition("(?:class|struct|enum class) (\\w+)(?: final)?(?: : .*)?");
    std::map<std::string, std::string> headers;
    for (const char* const top : {"core", "app", "views"}) {
        for (const auto& entry : fs::recursive_directory_iterator(fs::path(HEADROOM_SOURCE_DIR) / top)) {
            if (entry.path().extension() != ".h")
                continue;
            const std::string file = fs::relative(entry.path(), HEADROOM_SOURCE_DIR).generic_string();
            std::ifstream in(entry.path());
            std::string text;
            std::string space;
            while (std::getline(in, text)) {
                std::smatch match;
                if (text.starts_with("namespace ")) {
                    space = text;
                } else if (std::regex_match(text, match, definition)) {
                    EXPECT_TRUE(headers.emplace(space + match[1].str(), file).second)
                        << match[1] << " is a class of " << file << " and of " << headers[space + match[1].str()];
                }
            }
        }
    }
    EXPECT_GT(headers.size(), 300U);
}

TEST(Rooms, LibtorchAndQtStayInTheirRooms)
{
    for (const auto& [room, includes] : includesByRoom()) {
        const auto row = rooms().find(room);
        if (row == rooms().end())
            continue;
        for (const Include& include : includes) {
            if (row->second.foreign != Foreign::torch) {
                EXPECT_FALSE(isTorch(include.target))
                    << include.file << ':' << include.line << ": libtorch in " << room;
            }
            if (row->second.foreign != Foreign::qt) {
                EXPECT_FALSE(isQt(include.target)) << include.file << ':' << include.line << ": Qt in " << room;
            }
        }
    }
}

TEST(Rooms, JsonIsParsedAndPrintedInTheBase)
{
    // core/base/json_reader.h and json_text.h: one kind of sentence about documents, one way to write them.
    const std::regex ownWay(R"(Json::parse\(|nlohmann::\w+::parse\(|\.dump\(|QJsonDocument)");
    const fs::path root = HEADROOM_SOURCE_DIR;
    for (const char* top : {"app", "core", "views"}) {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
            const fs::path file = fs::relative(entry.path(), root);
            if (!entry.is_regular_file() || roomOf(file) == "core/base")
                continue;
            std::ifstream in(entry.path());
            std::string text;
            for (int line = 1; std::getline(in, text); ++line)
                EXPECT_FALSE(std::regex_search(text, ownWay)) << file.generic_string() << ':' << line << ": " << text;
        }
    }
}

TEST(Rooms, KnowEachOtherInOneDirection)
{
    // Depth first over the table: a room that is reached while it is still open would know itself.
    std::map<std::string, int> state;
    const std::function<void(const std::string&)> visit = [&](const std::string& room) {
        state[room] = 1;
        for (const std::string& next : rooms().at(room).mayInclude) {
            EXPECT_NE(state[next], 1) << room << " and " << next << " know each other";
            if (state[next] == 0)
                visit(next);
        }
        state[room] = 2;
    };
    for (const auto& [room, row] : rooms())
        if (state[room] == 0)
            visit(room);
}

TEST(Rooms, CoreKnowsOnlyCore)
{
    for (const std::string& room : coreRooms)
        for (const std::string& known : rooms().at(room).mayInclude)
            EXPECT_TRUE(coreRooms.contains(known)) << room << " must not know " << known;
}

} // namespace
