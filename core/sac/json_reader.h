// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

using Json = nlohmann::ordered_json;

/// Parses a document that Python may have written: the literals NaN, Infinity and -Infinity, which JSON does not know,
/// become null, so that the field that holds one can be named. Errors say line and column.
Result<Json> parsePythonJson(std::string_view text, std::string_view sourceName);

Result<std::string> readTextFile(const std::filesystem::path& path);

/// Reads the fields of one JSON object, complete and checked. The first thing that is wrong is kept and later reads do
/// nothing, so that a caller reads all fields and asks status() once.
class JsonObjectReader
{
public:
    /// `where` begins every message: "file.json: module 'Foo'".
    JsonObjectReader(const Json& object, std::string where);

    void readBytes(const char* key, Bytes& value); ///< not negative
    void readSignedBytes(const char* key, Bytes& value);
    void readMs(const char* key, double& value); ///< not negative
    void readBool(const char* key, bool& value);
    void readString(const char* key, std::string& value);
    void readNumbers(const char* key, std::vector<double>& values);
    void readMsList(const char* key, std::vector<double>& values); ///< not negative
    void readBytesList(const char* key, std::vector<Bytes>& values); ///< not negative
    void readStrings(const char* key, std::vector<std::string>& values);
    void readIndices(const char* key, std::size_t count, std::vector<int>& values); ///< each below `count`
    void readIndexPairs(const char* key, std::size_t count, std::vector<std::pair<int, int>>& values);
    /// A list of pairs, or an object whose keys are numbers, as Python writes an OrderedDict of floats.
    void readCurve(const char* key, std::vector<std::pair<double, double>>& values);

    /// Keeps `what` is wrong with field `key`, unless something was wrong before.
    void fail(std::string_view key, std::string_view what);
    bool ok() const noexcept { return !error_.has_value(); }
    Status status() const;

private:
    const Json* field(const char* key);
    const Json* array(const char* key, std::string_view elements);
    bool number(const std::string& key, const Json& value, double& result);
    bool integer(const std::string& key, const Json& value, Bytes minimum, Bytes& result);
    bool index(const std::string& key, const Json& value, std::size_t count, int& result);
    template <class T, class Read>
    void readList(const char* key, std::string_view elements, std::vector<T>& values, Read read);

    const Json& object_;
    std::string where_;
    std::optional<Error> error_;
};

} // namespace headroom
