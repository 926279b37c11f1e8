// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/text_input.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

namespace headroom {

namespace {

constexpr std::size_t pieceSize = std::size_t{1} << 18;
constexpr std::size_t letGoEvery = std::size_t{1} << 26;

// Limits of an unpacked text: traces of torch.profiler are 10 to 30 times their packed size.
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
            problem_ = "is cut off: its compressed data end in the middle";
            return {};
        }
        // Consecutive packed parts are one text. Unpacked bytes after the last one do not belong to it.
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
            problem_ = "is damaged: its compressed data cannot be unpacked at byte " + std::to_string(read_);
            return {};
        }
    }
    const std::size_t size = piece_.size() - stream.avail_out;
    unpacked_ += size;
    if (unpacked_ > std::max(alwaysAllowed, bytes_.size() * mostRatio)) {
        problem_ = "unpacks to more than " + std::to_string(mostRatio) + " times its size, which no trace does";
        return {};
    }
    return {piece_.data(), size};
}

} // namespace headroom
