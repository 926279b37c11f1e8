// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_trace.h"

#include <array>
#include <cstddef>

namespace headroom {

namespace {

template <class Enum, std::size_t count>
std::string_view nameIn(const std::array<std::string_view, count>& names, Enum value)
{
    const auto index = static_cast<std::size_t>(value);
    return index < count ? names[index] : std::string_view("unknown");
}

} // namespace

std::string_view categoryName(Category category)
{
    static constexpr std::array<std::string_view, categoryCount> names{
        "parameter", "buffer", "gradient",    "activation",          "temporary",          "optimizer",
        "input",     "other",  "non_pytorch", "unsharded_parameter", "unsharded_gradient", "communication"};
    return nameIn(names, category);
}

std::string_view phaseName(Phase phase)
{
    static constexpr std::array<std::string_view, phaseCount> names{"forward", "backward", "optimizer", "zero_grad"};
    return nameIn(names, phase);
}

std::string_view dtypeName(DType dtype)
{
    static constexpr std::array<std::string_view, dtypeCount> names{
        "float32", "float64", "float16", "bfloat16", "float8",    "int64",      "int32",
        "int16",   "int8",    "uint8",   "bool",     "complex64", "complex128", "other"};
    return nameIn(names, dtype);
}

std::string_view eventKindName(EventKind kind)
{
    static constexpr std::array<std::string_view, eventKindCount> names{
        "alloc", "free",   "opBegin",   "opEnd",   "enter",  "exit",   "backwardEnter", "backwardExit",
        "pack",  "unpack", "unpackEnd", "release", "retype", "resize", "mark"};
    return nameIn(names, kind);
}

std::string_view collectiveName(CollectiveKind kind)
{
    static constexpr std::array<std::string_view, collectiveKindCount> names{
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
        "gather",     "scatter",    "send",           "recv",       "barrier"};
    return nameIn(names, kind);
}

std::string_view markName(Mark mark)
{
    static constexpr std::array<std::string_view, markCount> names{"start", "after_forward", "after_backward",
                                                                   "after_step", "after_zero_grad"};
    return nameIn(names, mark);
}

} // namespace headroom
