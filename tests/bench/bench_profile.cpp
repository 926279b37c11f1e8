// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// How fast a trace of torch.profiler is read: a real one (ResNet-50 on a V100), repeated to 256 MB, plain and packed.
#include "core/profile/profile_reader.h"

#include <benchmark/benchmark.h>

#include <zlib.h>

#include <string>
#include <vector>

namespace headroom {
namespace {

std::string unpacked(const std::string& file)
{
    const auto mapped = MappedFile::open(file).value();
    TextInput input(mapped->bytes(), mapped);
    std::string text;
    for (auto piece = input.next(); !piece.empty(); piece = input.next())
        text.append(piece.data(), piece.size());
    return text;
}

const std::string& manyEvents()
{
    static const std::string text = [] {
        const std::string one = unpacked(HEADROOM_SOURCE_DIR "/tests/data/profiles/resnet50_v100_torch19.json.gz");
        const std::size_t begin = one.find('[', one.find("\"traceEvents\"")) + 1;
        const std::string events = one.substr(begin, one.rfind(']') - begin);
        std::string repeated = one.substr(0, begin) + events;
        while (repeated.size() < 256'000'000)
            repeated += ',' + events;
        return repeated + "]}";
    }();
    return text;
}

std::string packed(const std::string& text)
{
    z_stream stream{};
    deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

void readAll(benchmark::State& state, const std::string& file)
{
    for (auto _ : state) {
        const Result<Profile> profile = readProfile(std::as_bytes(std::span(file)), "trace");
        if (!profile)
            state.SkipWithError(profile.error().message.c_str());
        state.counters["events"] = profile ? static_cast<double>(profile->events) : 0;
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(manyEvents().size()));
}

void readPlain(benchmark::State& state)
{
    readAll(state, manyEvents());
}
BENCHMARK(readPlain)->Unit(benchmark::kMillisecond);

void readPacked(benchmark::State& state)
{
    static const std::string file = packed(manyEvents());
    readAll(state, file);
}
BENCHMARK(readPacked)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace headroom
