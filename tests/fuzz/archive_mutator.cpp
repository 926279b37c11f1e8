// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// libFuzzer changes PyTorch's archives by this: one record at a time.

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t maxSize);

namespace {

/// The fuzzer's bytes as libtorch's reader wants them.
class Bytes final : public caffe2::serialize::ReadAdapterInterface
{
public:
    Bytes(const std::uint8_t* data, std::size_t size)
        : data_(data)
        , size_(size)
    {
    }
    std::size_t size() const override { return size_; }
    std::size_t read(std::uint64_t position, void* buffer, std::size_t size, const char*) const override
    {
        if (position >= size_)
            return 0;
        const std::size_t count = std::min<std::size_t>(size, size_ - position);
        std::copy_n(data_ + position, count, static_cast<std::uint8_t*>(buffer));
        return count;
    }

private:
    const std::uint8_t* data_;
    std::size_t size_;
};

constexpr std::size_t mostBytes = 1U << 20; ///< of a record: the directory may say anything

/// The archive again, one of its records changed.
std::string changedArchive(const std::uint8_t* data, std::size_t size, unsigned seed)
{
    PyTorchStreamReader reader(std::make_shared<Bytes>(data, size));
    std::vector<std::string> names = reader.getAllRecords();
    std::erase_if(names,
                  [](const std::string& name) { return name.starts_with(".data/") || name.ends_with(".debug_pkl"); });
    std::sort(names.begin(), names.end());
    std::mt19937 random(seed);
    const std::size_t chosen = random() % names.size();
    for (const std::string& name : names)
        if (reader.getRecordSize(name) > mostBytes)
            throw std::length_error(name);
    std::string archive;
    PyTorchStreamWriter writer([&](const void* part, std::size_t count) {
        archive.append(static_cast<const char*>(part), count);
        return count;
    });
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto [record, count] = reader.getRecord(names[i]);
        std::vector<std::uint8_t> content(count + 64);
        std::copy_n(static_cast<const std::uint8_t*>(record.get()), count, content.begin());
        content.resize(i == chosen ? LLVMFuzzerMutate(content.data(), count, content.size()) : count);
        if (names[i] != "version" && names[i] != "byteorder")
            writer.writeRecord(names[i], content.data(), content.size());
    }
    writer.writeEndOfFile();
    return archive;
}

} // namespace

/// Mostly changes a record and packs the archive again, so that changes reach what is behind the zip format.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize, unsigned seed)
{
    if (seed % 8 == 0)
        return LLVMFuzzerMutate(data, size, maxSize);
    try {
        const std::string archive = changedArchive(data, size, seed);
        if (!archive.empty() && archive.size() <= maxSize) {
            std::memcpy(data, archive.data(), archive.size());
            return archive.size();
        }
    } catch (const std::exception&) {
        // No archive any more: the bytes are changed as they are.
    }
    return LLVMFuzzerMutate(data, size, maxSize);
}
