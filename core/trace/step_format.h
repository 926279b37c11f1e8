// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// The layout of step.hrs, version 1, little-endian:
///
///   header        64 bytes
///   section table one Section for each column, and one for the StepInfo
///   sections      each at a multiple of 64, padded with zeros to the next one; the file ends after the last
///
/// A checksum covers every byte, and an error names the damaged section. The header's checksum covers the header, with
/// that field as 0, and the section table; the checksum in each Section covers the section with its padding.
namespace headroom::stepformat {

static_assert(std::endian::native == std::endian::little, "columns are used in place as they are in the file");

/// The signature follows PNG's: the first byte detects a 7-bit transfer, the line ends detect a text conversion, and
/// 0x1a ends the output of `type` on Windows.
inline constexpr std::array<unsigned char, 8> signature{0x89, 'H', 'R', 'S', '\r', '\n', 0x1a, '\n'};
inline constexpr std::uint32_t version = 1;
inline constexpr std::size_t alignment = 64;

struct Header
{
    std::array<unsigned char, 8> signature{};
    std::uint32_t version = 0; ///< raised if an older reader would misread the file; a new section does not raise it
    std::uint32_t sections = 0;
    std::uint64_t fileBytes = 0;
    std::uint64_t checksum = 0; ///< checksum of the header and the section table
    std::array<std::uint64_t, 4> reserved{};
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

enum class ElementType : std::uint32_t { u8 = 1, u16, u32, i64, f64, text, json };

struct Section
{
    std::array<char, 32> name{}; ///< padded with zeros, at least one
    ElementType type{};
    std::uint32_t elementBytes = 0;
    std::uint64_t count = 0; ///< elements
    std::uint64_t offset = 0; ///< from the start of the file
    std::uint64_t checksum = 0; ///< checksum of the section with its padding
};
static_assert(sizeof(Section) == 64 && std::is_trivially_copyable_v<Section>);

constexpr std::uint64_t alignedUp(std::uint64_t offset)
{
    return (offset + alignment - 1) / alignment * alignment;
}

template <class T>
constexpr ElementType elementType()
{
    if constexpr (std::is_same_v<T, char>)
        return ElementType::text;
    else if constexpr (std::is_same_v<T, double>)
        return ElementType::f64;
    else if constexpr (sizeof(T) == 8)
        return ElementType::i64;
    else if constexpr (sizeof(T) == 4)
        return ElementType::u32;
    else if constexpr (sizeof(T) == 2)
        return ElementType::u16;
    else
        return ElementType::u8;
}

inline constexpr std::string_view infoSection = "info";

/// Calls visit(name, span) for every column that a step file must have. It defines the names of their sections.
template <class Trace, class Visit>
void visitColumns(Trace& t, Visit visit)
{
    visit("strings.first", t.strings.first);
    visit("strings.text", t.strings.text);
    visit("modules.fqn", t.modules.fqn.rows);
    visit("modules.type", t.modules.type.rows);
    visit("modules.parent", t.modules.parent.rows);
    visit("registered.module", t.registered.module);
    visit("registered.name", t.registered.name);
    visit("registered.storage", t.registered.storage);
    visit("registered.category", t.registered.category);
    visit("calls.module", t.calls.module.rows);
    visit("calls.parent", t.calls.parent.rows);
    visit("calls.arguments.first", t.calls.arguments.first);
    visit("calls.arguments", t.calls.arguments.rows);
    visit("calls.results.first", t.calls.results.first);
    visit("calls.results", t.calls.results.rows);
    visit("ops.name", t.ops.name.rows);
    visit("ops.node", t.ops.node.rows);
    visit("ops.module", t.ops.module.rows);
    visit("ops.call", t.ops.call.rows);
    visit("ops.forward_op", t.ops.forwardOp.rows);
    visit("ops.phase", t.ops.phase.rows);
    visit("ops.dtype", t.ops.dtype.rows);
    visit("ops.flags", t.ops.flags.rows);
    visit("ops.bytes", t.ops.bytes.rows);
    visit("ops.flops", t.ops.flops.rows);
    visit("ops.ms", t.ops.ms.rows);
    visit("ops.inputs.first", t.ops.inputs.first);
    visit("ops.inputs", t.ops.inputs.rows);
    visit("ops.outputs.first", t.ops.outputs.first);
    visit("ops.outputs", t.ops.outputs.rows);
    visit("ops.mutated.first", t.ops.mutated.first);
    visit("ops.mutated", t.ops.mutated.rows);
    visit("storages.bytes", t.storages.bytes.rows);
    visit("storages.requested", t.storages.requested.rows);
    visit("storages.category", t.storages.category.rows);
    visit("storages.creator", t.storages.creator.rows);
    visit("packs.storage", t.packs.storage.rows);
    visit("packs.op", t.packs.op.rows);
    visit("resizes.bytes", t.resizes.bytes);
    visit("resizes.requested", t.resizes.requested);
    visit("events.kind", t.events.kind.rows);
    visit("events.a", t.events.a.rows);
    visit("events.b", t.events.b.rows);
}

/// Calls visit(name, span) for every optional column. A column that the file lacks is empty, and an empty column is not
/// written.
template <class Trace, class Visit>
void visitOptionalColumns(Trace& t, Visit visit)
{
    visit("storages.stream", t.storages.stream.rows);
    visit("ops.signature", t.ops.signature.rows);
    visit("ops.stream", t.ops.stream.rows);
    visit("groups.name", t.groups.name.rows);
    visit("groups.ranks.first", t.groups.ranks.first);
    visit("groups.ranks", t.groups.ranks.rows);
    visit("collectives.op", t.collectives.op);
    visit("collectives.kind", t.collectives.kind);
    visit("collectives.bytes", t.collectives.bytes);
    visit("collectives.group", t.collectives.group);
    visit("collectives.peer", t.collectives.peer);
    visit("collectives.async", t.collectives.async);
    visit("stream_events.op", t.streamEvents.op);
    visit("stream_events.kind", t.streamEvents.kind);
    visit("stream_events.stream", t.streamEvents.stream);
    visit("stream_events.event", t.streamEvents.event);
    visit("stream_events.position", t.streamEvents.position);
    visit("resizes.stream", t.resizes.stream);
    visit("signatures.first", t.signatures.values.first);
    visit("signatures", t.signatures.values.rows);
    visit("reserved.event", t.reserved.event);
    visit("reserved.bytes", t.reserved.bytes);
    visit("out_of_memory.op", t.outOfMemory.op);
    visit("out_of_memory.requested", t.outOfMemory.requested);
    visit("out_of_memory.device_free", t.outOfMemory.deviceFree);
}

/// Whether openStep() compares checksums. Tests and fuzzers ignore them to reach the later checks.
enum class Checksums { verify, ignore };

/// Opens the step file in `bytes`, which begin at a multiple of `alignment` and live as long as `owner`. `name` is the
/// file's name in errors.
Result<StepTracePtr> openStep(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const std::string& name, Checksums checksums);

} // namespace headroom::stepformat
