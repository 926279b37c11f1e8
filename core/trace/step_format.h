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
///   section table one Section for each column, and a Section for the StepInfo
///   sections      each at a multiple of 64, padded with zeros to the next section; the file ends after the last
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
    std::array<char, 32> name{}; ///< padded with zeros; the last character is a zero
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

/// Calls visit(name, rows...) for every column that a step file must have, with the column's rows in each of the
/// StepTables. Defines the names of the sections.
template <class Visit, class... Tables>
void visitColumns(Visit visit, Tables&... tables)
{
    visit("strings.first", tables.strings.first...);
    visit("strings.text", tables.strings.text...);
    visit("modules.fqn", tables.modules.fqn.rows...);
    visit("modules.type", tables.modules.type.rows...);
    visit("modules.parent", tables.modules.parent.rows...);
    visit("registered.module", tables.registered.module...);
    visit("registered.name", tables.registered.name...);
    visit("registered.storage", tables.registered.storage...);
    visit("registered.category", tables.registered.category...);
    visit("calls.module", tables.calls.module.rows...);
    visit("calls.parent", tables.calls.parent.rows...);
    visit("calls.arguments.first", tables.calls.arguments.first...);
    visit("calls.arguments", tables.calls.arguments.rows...);
    visit("calls.results.first", tables.calls.results.first...);
    visit("calls.results", tables.calls.results.rows...);
    visit("ops.name", tables.ops.name.rows...);
    visit("ops.node", tables.ops.node.rows...);
    visit("ops.module", tables.ops.module.rows...);
    visit("ops.call", tables.ops.call.rows...);
    visit("ops.forward_op", tables.ops.forwardOp.rows...);
    visit("ops.phase", tables.ops.phase.rows...);
    visit("ops.dtype", tables.ops.dtype.rows...);
    visit("ops.flags", tables.ops.flags.rows...);
    visit("ops.bytes", tables.ops.bytes.rows...);
    visit("ops.flops", tables.ops.flops.rows...);
    visit("ops.ms", tables.ops.ms.rows...);
    visit("ops.inputs.first", tables.ops.inputs.first...);
    visit("ops.inputs", tables.ops.inputs.rows...);
    visit("ops.outputs.first", tables.ops.outputs.first...);
    visit("ops.outputs", tables.ops.outputs.rows...);
    visit("ops.mutated.first", tables.ops.mutated.first...);
    visit("ops.mutated", tables.ops.mutated.rows...);
    visit("storages.bytes", tables.storages.bytes.rows...);
    visit("storages.requested", tables.storages.requested.rows...);
    visit("storages.category", tables.storages.category.rows...);
    visit("storages.creator", tables.storages.creator.rows...);
    visit("packs.storage", tables.packs.storage.rows...);
    visit("packs.op", tables.packs.op.rows...);
    visit("resizes.bytes", tables.resizes.bytes...);
    visit("resizes.requested", tables.resizes.requested...);
    visit("events.kind", tables.events.kind.rows...);
    visit("events.a", tables.events.a.rows...);
    visit("events.b", tables.events.b.rows...);
}

/// Calls visit(name, rows...) for every optional column. A column that the file lacks is empty, and an empty column is
/// not written.
template <class Visit, class... Tables>
void visitOptionalColumns(Visit visit, Tables&... tables)
{
    visit("storages.stream", tables.storages.stream.rows...);
    visit("ops.signature", tables.ops.signature.rows...);
    visit("ops.stream", tables.ops.stream.rows...);
    visit("ops.frame", tables.ops.frame.rows...);
    visit("storages.frame", tables.storages.frame.rows...);
    visit("frames.caller", tables.frames.caller.rows...);
    visit("frames.file", tables.frames.file.rows...);
    visit("frames.function", tables.frames.function.rows...);
    visit("frames.line", tables.frames.line.rows...);
    visit("groups.name", tables.groups.name.rows...);
    visit("groups.ranks.first", tables.groups.ranks.first...);
    visit("groups.ranks", tables.groups.ranks.rows...);
    visit("collectives.op", tables.collectives.op...);
    visit("collectives.kind", tables.collectives.kind...);
    visit("collectives.bytes", tables.collectives.bytes...);
    visit("collectives.group", tables.collectives.group...);
    visit("collectives.peer", tables.collectives.peer...);
    visit("collectives.async", tables.collectives.async...);
    visit("stream_events.op", tables.streamEvents.op...);
    visit("stream_events.kind", tables.streamEvents.kind...);
    visit("stream_events.stream", tables.streamEvents.stream...);
    visit("stream_events.event", tables.streamEvents.event...);
    visit("stream_events.position", tables.streamEvents.position...);
    visit("resizes.stream", tables.resizes.stream...);
    visit("signatures.first", tables.signatures.values.first...);
    visit("signatures", tables.signatures.values.rows...);
    visit("reserved.event", tables.reserved.event...);
    visit("reserved.bytes", tables.reserved.bytes...);
    visit("out_of_memory.op", tables.outOfMemory.op...);
    visit("out_of_memory.requested", tables.outOfMemory.requested...);
    visit("out_of_memory.device_free", tables.outOfMemory.deviceFree...);
    visit("out_of_memory.pieces", tables.outOfMemory.pieces...);
    visit("free_pieces.failure", tables.freePieces.failure...);
    visit("free_pieces.bytes", tables.freePieces.bytes...);
    visit("free_pieces.beside", tables.freePieces.beside...);
    visit("before_training.kind", tables.beforeTraining.kind...);
    visit("before_training.bytes", tables.beforeTraining.bytes...);
    visit("before_training.stream", tables.beforeTraining.stream...);
    visit("before_training.block", tables.beforeTraining.block...);
    visit("between_steps.kind", tables.betweenSteps.kind...);
    visit("between_steps.bytes", tables.betweenSteps.bytes...);
    visit("between_steps.stream", tables.betweenSteps.stream...);
    visit("between_steps.block", tables.betweenSteps.block...);
}

/// Whether openStep() compares checksums. Tests and fuzzers ignore checksums to reach the later checks.
enum class Checksums { verify, ignore };

/// Opens the step file in `bytes`, which begin at a multiple of `alignment` and live as long as `owner`. `name` is the
/// file's name in errors. Errors (badInput): as for readStepTrace().
Result<StepTracePtr> openStep(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const std::string& name, Checksums checksums);

} // namespace headroom::stepformat
