// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/op_facts.h"

#include <algorithm>
#include <array>

namespace headroom {
namespace {

using namespace std::string_view_literals;

// torch/testing/_internal/composite_compliance.py: is_view_fn, is_inplace_view_fn.
// clang-format off
constexpr auto viewLikeNames = std::to_array<std::string_view>({
    "_conj", "_reshape_alias", "_unsafe_view", "alias", "as_strided", "as_strided_", "chunk", "detach", "detach_",
    "diagonal", "expand", "expand_as", "hsplit", "imag", "movedim", "narrow", "permute", "real", "select", "slice",
    "split", "split_with_sizes", "squeeze", "squeeze_", "swapaxes", "swapaxes_", "swapdims_", "t", "t_",
    "tensor_split", "transpose", "transpose_", "unbind", "unflatten", "unfold", "unsqueeze", "unsqueeze_", "view",
    "view_as", "view_as_complex", "view_as_real", "vsplit"
});
// clang-format on
static_assert(std::ranges::is_sorted(viewLikeNames));

// sac_estimator.py: _ADDITIONAL_IGNORED_OPS.
constexpr std::array skippedNames{"aten.clone.default"sv, "aten.lift_fresh.default"sv,
                                  "profiler._record_function_exit._RecordFunction"sv};

bool isInPlace(std::string_view packet)
{
    const bool dunder = packet.size() > 4 && packet.starts_with("__") && packet.ends_with("__");
    if (dunder)
        return packet.size() > 5 && packet[2] == 'i';
    return packet.ends_with('_');
}

} // namespace

OpNameFacts opNameFacts(std::string_view name)
{
    OpNameFacts facts;
    const std::size_t begin = name.find('.') + 1; // 0 when there is no namespace
    facts.packet = name.substr(begin, name.find('.', begin) - begin);
    facts.viewLike = std::ranges::binary_search(viewLikeNames, facts.packet);
    facts.inPlace = isInPlace(facts.packet);
    facts.skipped = std::ranges::find(skippedNames, name) != skippedNames.end();
    return facts;
}

OpNames::OpNames(const StepTrace& trace)
    : trace_(trace)
    , facts_(trace.strings.size())
{
    std::vector<bool> known(facts_.size());
    for (const StringId name : trace.ops.name) {
        if (!known[name.value])
            facts_[name.value] = opNameFacts(trace.strings[name]);
        known[name.value] = true;
    }
}

const OpNameFacts& OpNames::operator[](OpId op) const
{
    return facts_[trace_.ops.name[op].value];
}

} // namespace headroom
