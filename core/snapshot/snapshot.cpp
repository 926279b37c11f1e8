// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/snapshot.h"

#include "core/base/try.h"
#include "core/snapshot/unpickler.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace headroom {

namespace snapshot {

namespace {

using Type = Value::Type;

/// Reads the dictionary at the root of a snapshot.
class Root
{
public:
    Root(const Unpickler& unpickler, Snapshot& snapshot)
        : unpickler_(unpickler)
        , snapshot_(snapshot)
    {
    }

    void read()
    {
        if (unpickler_.root().type != Type::dictionary)
            throw WrongPickle{"holds no dictionary with 'segments' and 'device_traces', expected a memory snapshot"};
        const Value& segments = required(Key::segments);
        const Value& traces = required(Key::deviceTraces);
        checkType(segments, Type::segment, "'segments'");
        placeBlocks();
        readTraces(traces);
        if (const Value* settings = find(Key::allocatorSettings))
            readSettings(*settings);
    }

private:
    const Value* find(Key key, const Value& dictionary) const
    {
        const std::span items = unpickler_.items(dictionary);
        for (std::size_t i = 0; i + 1 < items.size(); i += 2)
            if (items[i].type == Type::text && items[i].index == static_cast<std::uint32_t>(key))
                return &items[i + 1];
        return nullptr;
    }
    const Value* find(Key key) const { return find(key, unpickler_.root()); }

    const Value& required(Key key) const
    {
        const Value* value = find(key);
        if (!value || value->type != Type::list)
            throw WrongPickle{"holds no list '" + std::string(snapshot_.strings[static_cast<std::size_t>(key)])
                              + "', expected a memory snapshot of torch.cuda.memory._dump_snapshot"};
        return *value;
    }

    void checkType(const Value& list, Type type, const std::string& name) const
    {
        for (const Value& item : unpickler_.items(list))
            if (item.type != type)
                throw WrongPickle{"holds something else in " + name + " than the snapshot's records"};
    }

    /// Computes the addresses of blocks from old versions, where each follows the previous one. Checks that blocks lie
    /// inside the segments.
    void placeBlocks()
    {
        for (Snapshot::Segment& segment : snapshot_.segments) {
            std::uint64_t next = segment.address;
            for (const Snapshot::Index row : segment.blocks) {
                Snapshot::Block& block = snapshot_.blocks[row];
                if (block.address == 0)
                    block.address = next;
                if (block.address < next)
                    throw WrongPickle{"holds blocks that overlap in a segment"};
                next = block.address + static_cast<std::uint64_t>(block.size);
            }
            if (next < segment.address || next - segment.address > static_cast<std::uint64_t>(segment.size))
                throw WrongPickle{"holds blocks outside of segments"};
        }
    }

    /// Distributes the events from the single list of Records to the lists of the devices.
    void readTraces(const Value& traces)
    {
        std::vector<Snapshot::Event> all = std::move(snapshot_.traces.front());
        const std::span lists = unpickler_.items(traces);
        if (lists.size() > 4096)
            throw WrongPickle{"holds more than 4096 devices"};
        snapshot_.traces.assign(std::max<std::size_t>(lists.size(), 1), {});
        std::vector<bool> taken(all.size(), false);
        for (std::size_t device = 0; device < lists.size(); ++device) {
            if (lists[device].type != Type::list)
                throw WrongPickle{"holds something else in 'device_traces' than lists"};
            const std::span items = unpickler_.items(lists[device]);
            if (isAll(items, all.size())) { // with a single device nothing is copied
                snapshot_.traces[device] = std::exchange(all, {});
                std::fill(taken.begin(), taken.end(), true);
                continue;
            }
            std::vector<Snapshot::Event>& events = snapshot_.traces[device];
            events.reserve(items.size());
            for (const Value& item : items) {
                if (item.type != Type::event || taken[item.index])
                    throw WrongPickle{"holds something else in 'device_traces' than events"};
                taken[item.index] = true;
                events.push_back(all[item.index]);
            }
        }
    }

    static bool isAll(std::span<const Value> items, std::size_t count)
    {
        if (items.size() != count || count == 0)
            return false;
        for (std::size_t i = 0; i < count; ++i)
            if (items[i].type != Type::event || items[i].index != i)
                return false;
        return true;
    }

    void readSettings(const Value& settings)
    {
        if (settings.type != Type::dictionary)
            return;
        if (const Value* text = find(Key::allocConf, settings); text && text->type == Type::text)
            snapshot_.settings = std::string(snapshot_.text(text->index));
    }

    const Unpickler& unpickler_;
    Snapshot& snapshot_;
};

} // namespace

} // namespace snapshot

bool looksLikePickle(std::span<const std::byte> bytes)
{
    return bytes.size() >= 2 && bytes[0] == std::byte{static_cast<unsigned char>(PickleOpcode::protocol)}
    && bytes[1] >= std::byte{2} && bytes[1] <= std::byte{5};
}

Error stoppedReading()
{
    return badInput("the reading was stopped");
}

namespace {

Result<std::shared_ptr<Snapshot>> snapshotIn(std::span<const std::byte> bytes, const std::string& name,
                                             SnapshotRange range, const std::function<bool(std::size_t)>& goesOn)
{
    if (std::isnan(range.fromMs) || std::isnan(range.toMs) || range.fromMs < 0 || range.toMs <= range.fromMs)
        return badInput("the range of time is empty: expected a begin of 0 ms or later and a later end");
    snapshot::Records records(range);
    snapshot::Unpickler unpickler(bytes, records);
    try {
        if (!unpickler.run(goesOn))
            return stoppedReading();
        snapshot::Root(unpickler, records.result()).read();
    } catch (const WrongPickle& wrong) {
        return badInput(name + " " + wrong.what + " (byte " + std::to_string(unpickler.position()) + ")");
    }
    return std::make_shared<Snapshot>(std::move(records.result()));
}

} // namespace

Result<SnapshotPtr> readSnapshot(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                 const std::string& name, SnapshotRange range,
                                 const std::function<bool(std::size_t)>& goesOn)
{
    ASSIGN_OR_RETURN(auto snapshot, snapshotIn(bytes, name, range, goesOn));
    snapshot->memory = std::move(owner);
    return SnapshotPtr(std::move(snapshot));
}

Result<SnapshotPtr> readSnapshot(const std::filesystem::path& path, SnapshotRange range, const SnapshotWatch& watch)
{
    ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
    const auto size = static_cast<double>(file->bytes().size());
    file->readAhead();
    // The pages are released in large steps, since texts near the front of the file are read again.
    constexpr std::size_t kept = std::size_t{64} << 20;
    std::size_t letGo = kept;
    const auto goesOn = [&](std::size_t position) {
        if (position >= letGo) {
            file->letGo(position);
            letGo = position + kept;
        }
        if (watch.progressed)
            watch.progressed(static_cast<double>(position) / size);
        return !watch.stop.stop_requested();
    };
    const auto snapshot = snapshotIn(file->bytes(), path.string(), range, goesOn);
    RETURN_IF_ERROR(file->unchanged());
    file->letGo(file->bytes().size());
    if (!snapshot)
        return snapshot.error();
    (*snapshot)->file = file;
    return SnapshotPtr(*snapshot);
}

} // namespace headroom
