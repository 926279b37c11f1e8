// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/op_facts.h"

#include <algorithm>
#include <array>

namespace headroom {
namespace {

using namespace std::string_view_literals;

// torch/testing/_internal/composite_compliance.py: is_view_fn, is_inplace_view_fn.
constexpr std::array viewLikeNames{"_conj"sv,        "_reshape_alias"sv,
                                   "_unsafe_view"sv, "alias"sv,
                                   "as_strided"sv,   "as_strided_"sv,
                                   "chunk"sv,        "detach"sv,
                                   "detach_"sv,      "diagonal"sv,
                                   "expand"sv,       "expand_as"sv,
                                   "hsplit"sv,       "imag"sv,
                                   "movedim"sv,      "narrow"sv,
                                   "permute"sv,      "real"sv,
                                   "select"sv,       "slice"sv,
                                   "split"sv,        "split_with_sizes"sv,
                                   "squeeze"sv,      "squeeze_"sv,
                                   "swapaxes"sv,     "swapaxes_"sv,
                                   "swapdims_"sv,    "t"sv,
                                   "t_"sv,           "tensor_split"sv,
                                   "transpose"sv,    "transpose_"sv,
                                   "unbind"sv,       "unflatten"sv,
                                   "unfold"sv,       "unsqueeze"sv,
                                   "unsqueeze_"sv,   "view"sv,
                                   "view_as"sv,      "view_as_complex"sv,
                                   "view_as_real"sv, "vsplit"sv};
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
