// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/allocator_rules.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <vector>

namespace headroom {

namespace {

/// A word, or a mark: , : [ ].
struct Token
{
    std::string text;
    std::size_t place = 0; ///< number of the first character, from 1
};

struct WrongSetting
{
    std::string what;
};

std::vector<Token> tokens(std::string_view settings)
{
    std::vector<Token> found;
    bool inWord = false;
    for (std::size_t i = 0; i < settings.size(); ++i) {
        const char character = settings[i];
        const bool mark = character == ',' || character == ':' || character == '[' || character == ']';
        if (character == ' ' || character == '\t' || character == '\n' || character == '\r')
            continue; // PyTorch's tokenizer ignores blanks, even inside a word
        if (mark || !inWord)
            found.push_back({{}, i + 1});
        found.back().text += character;
        inWord = !mark;
    }
    return found;
}

/// Options of PyTorch 2.11 and later that do not change the reserved memory of a step with room.
constexpr std::array otherOptions{"release_lock_on_cudamalloc",     "release_lock_on_hipmalloc",
                                  "pinned_use_cuda_host_register",  "pinned_use_hip_host_register",
                                  "pinned_num_register_threads",    "pinned_use_background_threads",
                                  "pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse",
                                  "pinned_max_round_threshold_mb",  "pinned_max_cached_size_mb",
                                  "pinned_free_catch_all",          "throw_on_cudamalloc_oom",
                                  "expandable_segments_reserve"};

class SettingsReader
{
public:
    SettingsReader(AllocatorRules& rules, std::string_view settings)
        : rules_(rules)
        , tokens_(tokens(settings))
    {
    }

    void run()
    {
        // The limits of other options depend on large_segment_size_mb: read that option first.
        for (; next_ < tokens_.size(); ++next_) {
            if (tokens_[next_].text == "large_segment_size_mb")
                option(tokens_[next_++]);
        }
        next_ = 0;
        while (next_ < tokens_.size()) {
            option(take("an option"));
            if (next_ < tokens_.size())
                expect(",", "between two options");
        }
    }

private:
    [[noreturn]] static void wrong(const Token& token, const std::string& expected)
    {
        throw WrongSetting{"'" + token.text + "' at character " + std::to_string(token.place) + ": expected "
                           + expected};
    }

    const Token& take(const std::string& expected)
    {
        if (next_ == tokens_.size())
            throw WrongSetting{"the settings end where " + expected + " was expected"};
        return tokens_[next_++];
    }

    void expect(std::string_view mark, const std::string& where)
    {
        const Token& token = take("'" + std::string(mark) + "' " + where);
        if (token.text != mark)
            wrong(token, "'" + std::string(mark) + "' " + where);
    }

    template <class Number>
    Number number(const Token& token, Number least, Number most, const std::string& expected)
    {
        Number value{};
        const char* end = token.text.data() + token.text.size();
        const auto [stop, error] = std::from_chars(token.text.data(), end, value);
        if (error != std::errc() || stop != end || !(least <= value && value <= most))
            wrong(token, expected);
        return value;
    }

    Bytes mebibytes(std::int64_t least, const std::string& option)
    {
        constexpr std::int64_t most = std::int64_t{1} << 40;
        const std::string expected = "a whole number of MiB of at least " + std::to_string(least) + " for " + option;
        return number<std::int64_t>(take(expected), least, most, expected) * MiB;
    }

    bool boolean(const std::string& option)
    {
        const std::string expected = "True or False for " + option;
        const Token& token = take(expected);
        if (token.text != "True" && token.text != "False")
            wrong(token, expected);
        return token.text == "True";
    }

    /// Reads a share above 0. The largest share is 1 if `one`, otherwise below 1.
    double share(const std::string& option, bool one)
    {
        const std::string expected
            = "a number above 0 and " + std::string(one ? "up to" : "below") + " 1 for " + option;
        const Token& token = take(expected);
        const double value = number<double>(token, 0.0, 1.0, expected);
        if (value <= 0 || (!one && value >= 1))
            wrong(token, expected);
        return value;
    }

    void option(const Token& name)
    {
        const auto colon = [&] { expect(":", "after " + name.text); };
        if (name.text == "max_split_size_mb") {
            colon();
            rules_.maxSplit = mebibytes(rules_.largeSegment / MiB, name.text);
        } else if (name.text == "max_non_split_rounding_mb") {
            colon();
            rules_.maxNonSplitRounding = mebibytes(rules_.largeSegment / MiB, name.text);
        } else if (name.text == "large_segment_size_mb") {
            colon();
            rules_.largeSegment = mebibytes(rules_.minLargeSegment / MiB + 1, name.text);
        } else if (name.text == "garbage_collection_threshold") {
            colon();
            rules_.garbageCollection = share(name.text, false);
        } else if (name.text == "per_process_memory_fraction") {
            colon();
            rules_.memoryFraction = share(name.text, true);
        } else if (name.text == "expandable_segments") {
            colon();
            rules_.expandableSegments = boolean(name.text);
        } else if (name.text == "roundup_power2_divisions") {
            colon();
            divisions();
        } else if (name.text == "backend") {
            colon();
            const Token& backend = take("a backend");
            if (backend.text != "native")
                wrong(backend, "the backend native: Headroom simulates no other");
        } else if (std::ranges::find(otherOptions, name.text) != otherOptions.end()) {
            colon();
            take("a value of " + name.text);
        } else {
            wrong(name, "an option of PYTORCH_CUDA_ALLOC_CONF, such as max_split_size_mb or expandable_segments");
        }
    }

    std::uint32_t division(const Token& token, bool zero)
    {
        const std::string expected
            = std::string("a power of two") + (zero ? " or 0" : "") + " as a number of divisions";
        const auto value = number<std::uint32_t>(token, zero ? 0 : 1, 1U << 20, expected);
        if (value != 0 && !std::has_single_bit(value))
            wrong(token, expected);
        return value;
    }

    void divisions()
    {
        auto& steps = rules_.powerOfTwoDivisions;
        const Token& first = take("a number of divisions or a list in brackets");
        if (first.text != "[") {
            steps.fill(division(first, false));
            return;
        }
        std::optional<std::size_t> last; // interval of the previous entry
        for (;;) {
            const std::string expected = "a power of two in MiB, or > for all larger sizes";
            const Token& size = take(expected);
            if (size.text == "]")
                return;
            std::optional<std::size_t> interval;
            if (size.text != ">") {
                const auto mib = number<std::uint64_t>(size, 1, std::uint64_t{1} << 40, expected);
                if (!std::has_single_bit(mib))
                    wrong(size, expected);
                interval = std::min<std::size_t>(static_cast<std::size_t>(std::countr_zero(mib)), steps.size() - 1);
            }
            expect(":", "after the size " + size.text);
            const std::uint32_t count = division(take("a number of divisions"), true);
            if (!interval) {
                std::fill(steps.begin() + static_cast<std::ptrdiff_t>(std::min(last.value_or(0) + 1, steps.size())),
                          steps.end(), count);
            } else {
                if (!last)
                    std::fill_n(steps.begin(), *interval, count);
                steps[*interval] = count;
            }
            last = interval ? interval : last.value_or(0);
            const Token& mark = take("',' or ']' in the list of divisions");
            if (mark.text == "]")
                return;
            if (mark.text != ",")
                wrong(mark, "',' or ']' in the list of divisions");
        }
    }

    AllocatorRules& rules_;
    std::vector<Token> tokens_;
    std::size_t next_ = 0;
};

std::string shortNumber(double value)
{
    std::array<char, 32> text{};
    const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
    return {text.data(), end};
}

std::string divisionsText(const AllocatorRules& rules)
{
    const auto& steps = rules.powerOfTwoDivisions;
    if (std::ranges::all_of(steps, [&](std::uint32_t count) { return count == steps[0]; }))
        return std::to_string(steps[0]);
    std::string text = "[";
    for (std::size_t interval = 0; interval < steps.size(); ++interval)
        text += (interval == 0 ? "" : ",") + std::to_string(std::uint64_t{1} << interval) + ":"
            + std::to_string(steps[interval]);
    return text + "]";
}

} // namespace

Result<AllocatorRules> withAllocatorSettings(AllocatorRules rules, std::string_view settings)
{
    const AllocatorRules defaults;
    rules.largeSegment = defaults.largeSegment;
    rules.maxSplit = defaults.maxSplit;
    rules.maxNonSplitRounding = defaults.maxNonSplitRounding;
    rules.expandableSegments = defaults.expandableSegments;
    rules.garbageCollection = defaults.garbageCollection;
    rules.memoryFraction = defaults.memoryFraction;
    rules.powerOfTwoDivisions = defaults.powerOfTwoDivisions;
    try {
        SettingsReader(rules, settings).run();
    } catch (const WrongSetting& wrong) {
        return badInput("allocator settings: " + wrong.what);
    }
    return rules;
}

std::string allocatorSettings(const AllocatorRules& rules)
{
    const AllocatorRules defaults;
    std::string text;
    const auto add = [&](const std::string& name, const std::string& value) {
        text += (text.empty() ? "" : ",") + name + ":" + value;
    };
    if (rules.largeSegment != defaults.largeSegment)
        add("large_segment_size_mb", std::to_string(rules.largeSegment / MiB));
    if (rules.maxSplit != defaults.maxSplit)
        add("max_split_size_mb", std::to_string(rules.maxSplit / MiB));
    if (rules.maxNonSplitRounding != defaults.maxNonSplitRounding)
        add("max_non_split_rounding_mb", std::to_string(rules.maxNonSplitRounding / MiB));
    if (rules.expandableSegments)
        add("expandable_segments", "True");
    if (rules.garbageCollection > 0)
        add("garbage_collection_threshold", shortNumber(rules.garbageCollection));
    if (rules.memoryFraction > 0)
        add("per_process_memory_fraction", shortNumber(rules.memoryFraction));
    if (rules.powerOfTwoDivisions != defaults.powerOfTwoDivisions)
        add("roundup_power2_divisions", divisionsText(rules));
    return text;
}

} // namespace headroom
