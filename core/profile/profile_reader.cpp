// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile_reader.h"

#include "core/base/try.h"
#include "core/profile/profile_builder.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>
#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace headroom {

namespace {

constexpr std::size_t pieceSize = std::size_t{1} << 18;
constexpr std::size_t letGoEvery = std::size_t{1} << 26;

// Limits of an unpacked text: traces of torch.profiler are 10 to 30 times the packed size.
constexpr std::size_t mostRatio = 50;
constexpr std::size_t alwaysAllowed = std::size_t{64} << 20;

bool isGzip(std::span<const std::byte> bytes)
{
    return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

} // namespace

struct TextInput::Unpacker
{
    z_stream stream{};
    bool between = false; ///< between two packed parts, where the file may end

    Unpacker() { usable = ::inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK; }
    ~Unpacker() { ::inflateEnd(&stream); }
    Unpacker(const Unpacker&) = delete;
    Unpacker& operator=(const Unpacker&) = delete;

    bool usable = false;
};

TextInput::TextInput(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file)
    : bytes_(bytes)
    , file_(std::move(file))
{
    if (file_)
        file_->readAhead();
    if (!isGzip(bytes))
        return;
    unpacker_ = std::make_unique<Unpacker>();
    piece_.resize(pieceSize);
    if (!unpacker_->usable)
        problem_ = "zlib cannot be started";
}

TextInput::~TextInput() = default;

std::span<const char> TextInput::next()
{
    if (!problem_.empty())
        return {};
    if (file_ && read_ % letGoEvery < pieceSize)
        file_->letGo(read_);
    if (unpacker_)
        return unpack();
    const auto part = bytes_.subspan(read_, std::min(pieceSize, bytes_.size() - read_));
    read_ += part.size();
    return {reinterpret_cast<const char*>(part.data()), part.size()};
}

std::span<const char> TextInput::unpack()
{
    z_stream& stream = unpacker_->stream;
    stream.next_out = reinterpret_cast<Bytef*>(piece_.data());
    stream.avail_out = static_cast<uInt>(piece_.size());
    while (stream.avail_out == piece_.size()) {
        const auto rest = bytes_.subspan(read_, std::min(pieceSize, bytes_.size() - read_));
        if (rest.empty() && unpacker_->between)
            return {};
        if (rest.empty()) {
            problem_ = "is cut off: the compressed data end in the middle";
            return {};
        }
        // Consecutive packed parts are a single text. Unpacked bytes after the last part do not belong to the text.
        if (unpacker_->between && (!isGzip(rest) || ::inflateReset(&stream) != Z_OK)) {
            read_ = bytes_.size();
            return {};
        }
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest.data()));
        stream.avail_in = static_cast<uInt>(rest.size());
        const int answer = ::inflate(&stream, Z_NO_FLUSH);
        read_ += rest.size() - stream.avail_in;
        unpacker_->between = answer == Z_STREAM_END;
        if (answer != Z_OK && answer != Z_STREAM_END && answer != Z_BUF_ERROR) {
            problem_ = "is damaged: the compressed data cannot be unpacked at byte " + std::to_string(read_);
            return {};
        }
    }
    const std::size_t size = piece_.size() - stream.avail_out;
    unpacked_ += size;
    if (unpacked_ > std::max(alwaysAllowed, bytes_.size() * mostRatio)) {
        problem_
            = "unpacks to more than " + std::to_string(mostRatio) + " times the file's size, and no trace does that";
        return {};
    }
    return {piece_.data(), size};
}

namespace {

/// An input stream for RapidJSON: character by character, 0 at the end.
class Characters
{
public:
    using Ch = char;

    /// `tokens` counts the tokens that the parser has reported.
    Characters(TextInput& input, const std::size_t& tokens)
        : input_(input)
        , tokens_(tokens)
    {
        refill();
    }

    Ch Peek() const { return at_ == end_ ? '\0' : *at_; }
    Ch Take()
    {
        const Ch character = Peek();
        if (at_ != end_ && ++at_ == end_)
            refill();
        return character;
    }
    std::size_t Tell() const { return before_ + static_cast<std::size_t>(at_ - begin_); }
    bool atEnd() const { return at_ == end_; }
    /// Returns whether reading stopped at a token longer than any in a trace: the parser would hold the whole token.
    bool tooLong() const { return tooLong_; }

    // RapidJSON requires these functions, but calls only those of input streams.
    Ch* PutBegin() { return nullptr; }
    void Put(Ch) {}
    void Flush() {}
    std::size_t PutEnd(Ch*) { return 0; }

private:
    void refill()
    {
        constexpr std::size_t longestToken = std::size_t{64} << 20; // also of white space
        before_ += static_cast<std::size_t>(end_ - begin_);
        if (tokens_ != seenTokens_) {
            seenTokens_ = tokens_;
            tokenBegin_ = before_;
        }
        tooLong_ = before_ - tokenBegin_ > longestToken;
        const auto piece = tooLong_ ? std::span<const char>() : input_.next();
        begin_ = at_ = piece.data();
        end_ = begin_ + piece.size();
    }

    TextInput& input_;
    const std::size_t& tokens_;
    std::size_t seenTokens_ = 0;
    std::size_t tokenBegin_ = 0; ///< of the text, where a piece began with no more tokens than now
    bool tooLong_ = false;
    std::size_t before_ = 0; ///< of the text, in earlier pieces
    const char* begin_ = nullptr;
    const char* at_ = nullptr;
    const char* end_ = nullptr;
};

/// RapidJSON's handler, called in the order of the text. The JSON container around a value decides the meaning.
class TraceHandler
{
public:
    explicit TraceHandler(ProfileBuilder& builder)
        : builder_(builder)
    {
    }

    bool Null() { return literal("null"); }
    bool Bool(bool value) { return literal(value ? "true" : "false"); }
    bool RawNumber(const char* text, rapidjson::SizeType size, bool) { return number({text, size}); }
    bool String(const char* text, rapidjson::SizeType size, bool) { return string({text, size}); }
    // RapidJSON passes all numbers to RawNumber().
    bool Int(int) { return false; }
    bool Uint(unsigned) { return false; }
    bool Int64(std::int64_t) { return false; }
    bool Uint64(std::uint64_t) { return false; }
    bool Double(double) { return false; }

    bool Key(const char* text, rapidjson::SizeType size, bool)
    {
        ++tokens_;
        const std::string_view name(text, size);
        switch (container()) {
        case Container::root:
            next_ = name == "traceEvents"    ? Container::events
                : name == "deviceProperties" ? Container::devices
                                             : Container::skipped;
            break;
        case Container::event:
            field_ = eventField(name);
            next_ = field_ == Field::arguments ? Container::arguments : Container::skipped;
            break;
        case Container::arguments:
            field_ = argumentField(name);
            captured_ = builder_.event.text(field_);
            next_ = captured_ ? Container::captured : Container::skipped;
            break;
        case Container::device:
            field_ = deviceField(name);
            next_ = Container::skipped;
            break;
        default:
            break;
        }
        return true;
    }

    bool StartObject() { return open(false); }
    bool StartArray() { return open(true); }
    bool EndObject(rapidjson::SizeType) { return close(); }
    bool EndArray(rapidjson::SizeType) { return close(); }

    const std::string& problem() const noexcept { return problem_; }
    const std::size_t& tokens() const noexcept { return tokens_; }
    bool sawEvents() const noexcept { return sawEvents_; }

private:
    enum class Container : std::uint8_t { root, events, event, arguments, captured, devices, device, skipped };

    /// Deeper than any trace: Kineto's lists of the sizes of tensor lists are the deepest.
    static constexpr std::size_t deepest = 64;

    Container container() const { return containers_.back(); }

    bool fail(std::string problem)
    {
        problem_ = std::move(problem);
        return false;
    }

    bool open(bool list)
    {
        ++tokens_;
        if (containers_.size() >= deepest)
            return fail("nests " + std::to_string(deepest) + " deep, and no trace does that");
        if (containers_.empty()) {
            // Chrome also takes the list of events alone.
            containers_.push_back(list ? Container::events : Container::root);
            sawEvents_ = list;
            return true;
        }
        Container inside = next_;
        if (container() == Container::events || container() == Container::devices) {
            inside = list                          ? Container::skipped
                : container() == Container::events ? Container::event
                                                   : Container::device;
            if (inside == Container::event)
                builder_.event.clear();
            else if (inside == Container::device)
                builder_.device = {};
        } else if (container() == Container::captured || container() == Container::skipped) {
            inside = container();
        } else if ((inside == Container::events || inside == Container::devices || inside == Container::captured)
                   && !list) {
            inside = Container::skipped;
        } else if (inside == Container::arguments && list) {
            inside = Container::skipped;
        }
        sawEvents_ = sawEvents_ || inside == Container::events;
        if (inside == Container::captured) {
            if (container() != Container::captured)
                captured_->clear();
            else
                separate();
            *captured_ += '[';
        }
        containers_.push_back(inside);
        return true;
    }

    bool close()
    {
        ++tokens_;
        const Container left = container();
        containers_.pop_back();
        if (left == Container::captured)
            *captured_ += ']';
        else if (left == Container::device)
            builder_.addDevice();
        else if (left == Container::event && !builder_.addEvent())
            return fail(builder_.problem());
        return true;
    }

    /// Adds a comma between two elements of a captured list.
    void separate()
    {
        if (!captured_->empty() && captured_->back() != '[')
            *captured_ += ',';
    }

    bool literal(std::string_view text)
    {
        ++tokens_;
        if (!containers_.empty() && container() == Container::captured) {
            separate();
            *captured_ += text;
        }
        return true;
    }

    bool number(std::string_view text)
    {
        ++tokens_;
        if (containers_.empty())
            return true;
        switch (container()) {
        case Container::captured:
            return literal(text);
        case Container::event:
        case Container::arguments:
            if (field_ == Field::process || field_ == Field::thread)
                *builder_.event.text(field_) = text;
            else if (!builder_.event.setNumber(field_, text))
                return fail("has a number that cannot be, " + std::string(text.substr(0, 40)) + ", in event "
                            + std::to_string(builder_.profile.events + 1));
            return true;
        case Container::device:
            builder_.setDeviceNumber(field_, text);
            return true;
        default:
            return true;
        }
    }

    bool string(std::string_view text)
    {
        ++tokens_;
        if (containers_.empty())
            return true;
        if (container() == Container::captured) {
            // Only words and numbers are needed: characters that JSON would escape are left out.
            separate();
            *captured_ += '"';
            std::ranges::copy_if(text, std::back_inserter(*captured_), [](char c) { return c != '"' && c != '\\'; });
            *captured_ += '"';
        } else if (container() == Container::event && field_ == Field::phase) {
            builder_.event.phase = text.size() == 1 ? text.front() : '\0';
        } else if (container() == Container::event && field_ == Field::category) {
            builder_.event.category = eventClass(text);
        } else if (container() == Container::event || container() == Container::arguments) {
            if (std::string* const target = builder_.event.text(field_))
                *target = text;
        } else if (container() == Container::device && field_ == Field::name) {
            builder_.device.name = text;
        }
        return true;
    }

    ProfileBuilder& builder_;
    std::vector<Container> containers_;
    Container next_ = Container::skipped; ///< container after the last key
    Field field_ = Field::none; ///< field of the last key
    std::string* captured_ = nullptr;
    bool sawEvents_ = false;
    std::size_t tokens_ = 0;
    std::string problem_;
};

constexpr const char* expected = ": expected a trace of torch.profiler (export_chrome_trace)";

/// Returns the end of the sentence that says why the parser stopped.
std::string whyStopped(const rapidjson::ParseResult& result, const Characters& characters, const TextInput& input,
                       const TraceHandler& handler)
{
    if (!input.problem().empty())
        return " " + input.problem();
    if (!handler.problem().empty())
        return " " + handler.problem() + expected;
    if (characters.tooLong())
        return " has a text of more than 64 MiB at byte " + groupedDigits(static_cast<std::int64_t>(result.Offset()))
            + expected;
    if (result.Code() == rapidjson::kParseErrorDocumentEmpty)
        return std::string(" is empty") + expected;
    if (characters.atEnd())
        return " is cut off: the JSON ends in the middle, after "
            + groupedDigits(static_cast<std::int64_t>(result.Offset())) + " bytes";
    if (result.Code() == rapidjson::kParseErrorNumberTooBig)
        return " has a number that cannot be at byte " + groupedDigits(static_cast<std::int64_t>(result.Offset()))
            + expected;
    return " is no JSON from byte " + groupedDigits(static_cast<std::int64_t>(result.Offset())) + " on" + expected;
}

Result<Profile> read(TextInput& input, const std::string& name)
{
    constexpr unsigned flags
        = rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag;
    ProfileBuilder builder;
    TraceHandler handler(builder);
    Characters characters(input, handler.tokens());
    rapidjson::Reader reader;
    const rapidjson::ParseResult result = reader.Parse<flags>(characters, handler);
    if (!result)
        return badInput(name + whyStopped(result, characters, input, handler));
    if (!input.problem().empty())
        return badInput(name + " " + input.problem());
    if (!handler.sawEvents())
        return badInput(name + " is JSON without `traceEvents`" + expected);
    if (builder.profile.spans.empty() && builder.profile.kernels.empty())
        return badInput(name + " is a trace without ops of PyTorch" + expected);
    return std::move(builder.profile);
}

} // namespace

Result<Profile> readProfile(const std::filesystem::path& path)
{
    ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
    TextInput input(file->bytes(), file);
    Result<Profile> profile = read(input, path.string());
    RETURN_IF_ERROR(file->unchanged());
    return profile;
}

Result<Profile> readProfile(std::span<const std::byte> bytes, const std::string& name)
{
    TextInput input(bytes, nullptr);
    return read(input, name);
}

bool isProfileFile(const std::filesystem::path& path)
{
    const auto file = MappedFile::open(path);
    if (!file)
        return false;
    TextInput input((*file)->bytes(), nullptr);
    const auto text = input.next();
    const auto first = std::ranges::find_if_not(text, [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
    return first != text.end() && (*first == '{' || *first == '[');
}

} // namespace headroom
