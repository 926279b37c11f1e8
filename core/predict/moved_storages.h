// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/regions.h"
#include "core/trace/memory_event.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace headroom {

/// The storages that a plan moves to host memory and back, during a replay. The rules are those of
/// torch_headroom.apply() (packaging/python/torch_headroom/_apply/offload.py):
///
/// - A storage stays on the device from the first pack, or the end of the hosted op, or of an argument the begin of the
///   call, until Region::leave, and leaves before the next event; other holders keep the storage.
/// - The first unpack of any pack of call n, of any module of the plan, brings back the storages of the calls m <= n
///   with m + ahead >= n, later calls first; of an offloaded call the storages that were packed last come first, of a
///   checkpointed call the arguments and then the outputs of the first op. Of a call m < n only the first
///   Offload::prefetch storages come; with m + ahead == n, when call n has unpacked Offload::afterUnpacks packs and
///   unpacks another one (Region::back), again later calls first. A storage that is on the device by then just stays.
/// - A storage that came back is held until autograd has released all packs of the storage, or until the recomputation
///   takes the output of the hosted op; an argument until autograd has released all packs of the call.
///
/// A Memory may follow the copies: `copyOut(moved, region, bytes)` and `copyIn(moved, region, bytes)` when a copy is
/// issued, `waitOut(moved, region)` and `waitIn(moved, region)` when the device waits for the copy, `endCopy(moved,
/// bytes)` when the host's buffer is given back, `endCall(region)` and `beginBackward(region)`.
template <class Memory>
class MovedStorages
{
public:
    static constexpr bool followsCopies = requires(Memory & memory, std::uint32_t id, Bytes bytes)
    {
        memory.copyOut(id, id, bytes);
    };

    /// `movedOf` is a scratch array by pack, empty or all `none`; the destructor restores that state.
    MovedStorages(const StepTrace& trace, const Regions& plan, Memory& memory, std::vector<std::uint32_t>& movedOf)
        : trace_(trace)
        , plan_(plan)
        , memory_(memory)
        , movedOf_(movedOf)
        , storages_(plan.moved.size())
        , begun_(plan.numbered.size(), false)
        , back_(plan.numbered.size(), 0)
    {
        if (!plan.moved.empty())
            movedOf_.resize(trace.packs.size(), none);
        for (const auto& [pack, moved] : plan.movedPacks)
            movedOf_[pack] = moved;
        for (const std::uint32_t region : plan.numbered)
            if (const auto& offload = plan.regions[region].moves())
                mostAhead_ = std::max(mostAhead_, static_cast<std::uint32_t>(offload->ahead));
    }

    ~MovedStorages()
    {
        for (const auto& [pack, moved] : plan_.movedPacks)
            movedOf_[pack] = none;
    }

    MovedStorages(const MovedStorages&) = delete;
    MovedStorages& operator=(const MovedStorages&) = delete;

    /// Applies an event of autograd in an offloaded call. Returns false if the pack does not move.
    bool apply(std::uint32_t region, EventKind kind, PackId pack)
    {
        const std::uint32_t number = movedOf_.empty() ? none : movedOf_[pack.value];
        if (number == none)
            return false;
        Moved& moved = storages_[number];
        switch (kind) {
        case EventKind::pack:
            if (moved.saved++ == 0)
                save(number, moved);
            break;
        case EventKind::unpack:
            if constexpr (followsCopies)
                if (moved.state == State::back)
                    memory_.waitIn(number, region);
            memory_.hold(moved.block);
            break;
        case EventKind::unpackEnd:
            memory_.drop(moved.block);
            break;
        default:
            if (--moved.saved == 0)
                end(number, moved);
            break;
        }
        return true;
    }

    // Arguments of a checkpointed call.

    bool isMoved(const Region& call, StorageId argument) const
    {
        const auto begin = plan_.moved.begin() + call.firstMoved, end = plan_.moved.begin() + call.endArguments;
        return std::find_if(begin, end, [=](const MovedStorage& moved) { return moved.storage == argument; }) != end;
    }

    void holdArguments(const Region& call)
    {
        for (std::uint32_t number = call.firstMoved; number < call.endArguments; ++number)
            save(number, storages_[number]);
    }

    /// Calls visit(argument, block) for the arguments of a call that is recomputed.
    template <class Visit>
    void takeArguments(const Region& call, Visit visit)
    {
        for (std::uint32_t number = call.firstMoved; number < call.endArguments; ++number) {
            if constexpr (followsCopies)
                memory_.waitIn(number, plan_.moved[number].region);
            visit(plan_.moved[number].storage, storages_[number].block);
        }
    }

    void dropArguments(const Region& call)
    {
        for (std::uint32_t number = call.firstMoved; number < call.endArguments; ++number)
            end(number, storages_[number]);
    }

    // Outputs of hosted ops, in the cache of a checkpointed call.

    /// Returns whether the output moves; so does drop().
    bool cache(OpId op, StorageId output)
    {
        const std::uint32_t number = numberOf(op, output);
        if (number != none)
            save(number, storages_[number]);
        return number != none;
    }

    /// Hands over the cache's hold of a saved output. Returns the block.
    std::uint32_t take(OpId op, StorageId output)
    {
        const std::uint32_t number = numberOf(op, output);
        if (number == none)
            return output.value;
        if constexpr (followsCopies)
            memory_.waitIn(number, plan_.moved[number].region);
        storages_[number].state = State::notSaved;
        return storages_[number].block;
    }

    bool drop(OpId op, StorageId output)
    {
        const std::uint32_t number = numberOf(op, output);
        if (number != none)
            end(number, storages_[number]);
        return number != none;
    }

    /// Ends a call's hold of the storages.
    void leaveDevice(std::uint32_t region)
    {
        for (std::uint32_t number = plan_.regions[region].firstMoved; number < plan_.regions[region].endMoved; ++number)
            if (Moved& moved = storages_[number]; moved.state == State::onDevice) {
                if constexpr (followsCopies)
                    memory_.waitOut(number, region);
                memory_.drop(moved.block);
                moved.state = State::onHost;
            }
    }

    /// Brings back what the first unpack of a call asks for. Returns whether the unpack is the first.
    bool bringBackFrom(std::uint32_t region)
    {
        const std::uint32_t from = plan_.regions[region].number;
        if (from == none || begun_[from])
            return false;
        begun_[from] = true;
        if constexpr (followsCopies)
            memory_.beginBackward(region);
        for (std::uint32_t number = from + 1; number-- > from - std::min(from, mostAhead_);) {
            const std::uint32_t other = plan_.numbered[number];
            const auto& offload = plan_.regions[other].moves();
            const std::uint32_t with = number + static_cast<std::uint32_t>(offload ? offload->ahead : 0);
            if (offload && with >= from && (number == from || with > from || offload->afterUnpacks == 0))
                bringBack(other, static_cast<std::uint32_t>(number == from ? Offload::all : offload->prefetch));
        }
        return true;
    }

    /// Brings back the early storages of a call with Offload::afterUnpacks.
    void bringBackEarly(std::uint32_t region)
    {
        bringBack(region, static_cast<std::uint32_t>(plan_.regions[region].moves()->prefetch));
    }

private:
    static constexpr std::uint32_t none = Region::none;

    enum class State : std::uint8_t { notSaved, onDevice, onHost, back };
    struct Moved
    {
        State state = State::notSaved;
        std::uint32_t saved = 0; ///< packs that autograd has not released
        std::uint32_t block = none; ///< the block on the device, in the states onDevice and back
    };

    Bytes bytesOf(std::uint32_t number) const { return trace_.storages.bytes[plan_.moved[number].storage]; }

    /// The index in Regions::moved of an output of an op; none: the output stays.
    std::uint32_t numberOf(OpId op, StorageId output) const
    {
        const auto& outputs = plan_.movedOutputs;
        auto found = std::ranges::lower_bound(outputs, op, {}, &std::pair<OpId, std::uint32_t>::first);
        for (; found != outputs.end() && found->first == op; ++found)
            if (plan_.moved[found->second].storage == output)
                return found->second;
        return none;
    }

    /// Issues the copy to the host. The storage stays on the device for now.
    void save(std::uint32_t number, Moved& moved)
    {
        moved.state = State::onDevice;
        moved.block = plan_.moved[number].storage.value;
        memory_.hold(moved.block);
        if constexpr (followsCopies)
            memory_.copyOut(number, plan_.moved[number].region, bytesOf(number));
    }

    /// Brings back a call's storages, up to `most` with those that are back already.
    void bringBack(std::uint32_t region, std::uint32_t most)
    {
        const Region& call = plan_.regions[region];
        for (std::uint32_t& back = back_[call.number]; back < std::min(most, call.endMoved - call.firstMoved); ++back) {
            const std::uint32_t number = call.hosted ? call.firstMoved + back : call.endMoved - 1 - back;
            Moved& moved = storages_[number];
            if (moved.state == State::notSaved)
                continue;
            if (moved.state == State::onHost) {
                moved.block = memory_.addCopy(plan_.moved[number].storage, bytesOf(number));
                memory_.hold(moved.block);
                if constexpr (followsCopies)
                    memory_.copyIn(number, region, bytesOf(number));
            }
            giveBufferBack(number);
            moved.state = State::back;
        }
    }

    void end(std::uint32_t number, Moved& moved)
    {
        if (moved.state == State::onDevice || moved.state == State::back)
            memory_.drop(moved.block);
        if (moved.state != State::back)
            giveBufferBack(number);
        moved.state = State::notSaved;
    }

    /// Later copies into the buffer wait for the copy from the buffer.
    void giveBufferBack(std::uint32_t number)
    {
        if constexpr (followsCopies)
            memory_.endCopy(number, bytesOf(number));
    }

    const StepTrace& trace_;
    const Regions& plan_;
    Memory& memory_;
    std::vector<std::uint32_t>& movedOf_;
    std::vector<Moved> storages_; ///< by Regions::moved
    std::vector<bool> begun_; ///< by number of a call: a tensor was unpacked
    std::vector<std::uint32_t> back_; ///< by number of a call: number of storages that were brought back
    std::uint32_t mostAhead_ = 0; ///< of all calls
};

} // namespace headroom
