// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Which kernel scaled_dot_product_attention takes, by compute capability: what
// aten/src/ATen/native/transformers/cuda/sdp_utils.cpp decides, with the cuDNN of PyTorch 2.11's CUDA 13 wheel.
#include "core/device/attention_choice.h"
#include "tests/torch/device_fixture.h"

#include <ATen/Context.h>

#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace headroom {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Call
{
    at::ScalarType type = at::kBFloat16;
    Sizes query{2, 4, 128, 64};
    Sizes key = query;
    Sizes value = key;
    bool mask = false;
    double dropout = 0;
    bool causal = false;
    bool gqa = false;
    bool training = true;
};

constexpr std::array<int, 6> capabilities{75, 80, 86, 90, 100, 120};

struct Row
{
    std::string name;
    Call call;
    std::string expected; ///< a letter for each capability: c(uDNN), f(lash), e(fficient), m(ath)
};

void PrintTo(const Row& row, std::ostream* out)
{
    *out << row.name;
}

char letter(at::SDPBackend backend)
{
    switch (backend) {
    case at::SDPBackend::cudnn_attention:
        return 'c';
    case at::SDPBackend::flash_attention:
        return 'f';
    case at::SDPBackend::efficient_attention:
        return 'e';
    case at::SDPBackend::math:
        return 'm';
    default:
        return '?';
    }
}

class AttentionChoiceTable : public Device, public ::testing::WithParamInterface<Row>
{
protected:
    static Tensor make(const Call& call, const Sizes& sizes)
    {
        return call.training ? leaf(sizes, call.type) : empty(sizes, call.type);
    }

    static std::string choices(const Call& call)
    {
        const Tensor query = make(call, call.query);
        const Tensor key = make(call, call.key);
        const Tensor value = make(call, call.value);
        std::optional<Tensor> mask;
        if (call.mask)
            mask = empty({call.query[2], call.key[2]}, call.type);
        const sdp::sdp_params parameters{query, key, value, mask, call.dropout, call.causal, call.gqa};
        std::string letters;
        for (const int capability : capabilities)
            letters += letter(sim::attentionBackend(parameters, capability));
        return letters;
    }
};

TEST_P(AttentionChoiceTable, IsThatOfCuda)
{
    EXPECT_EQ(choices(GetParam().call), GetParam().expected) << "for the compute capabilities 75, 80, 86, 90, 100, 120";
}

const Row rows[] = {
    {"Bfloat16", {}, "mffccf"},
    {"Half", {.type = at::kHalf}, "effccf"},
    {"Float", {.type = at::kFloat}, "eeeeee"},
    {"Double", {.type = at::kDouble}, "mmmmmm"},
    {"Causal", {.causal = true}, "mffccf"},
    // Without matrix loads of tensor cores no alignment is needed.
    {"FloatOddHead", {.type = at::kFloat, .query = {2, 4, 128, 63}}, "emmmmm"},
    {"FloatHeadOf4", {.type = at::kFloat, .query = {2, 4, 128, 60}}, "eeeeee"},
    // Flash pads heads, the others do not.
    {"HalfHeadOf60", {.type = at::kHalf, .query = {2, 4, 128, 60}}, "mfffff"},
    {"HalfMask", {.type = at::kHalf, .mask = true}, "eeecce"},
    {"Bfloat16Mask", {.mask = true}, "meecce"},
    {"FloatMask", {.type = at::kFloat, .mask = true}, "eeeeee"},
    {"Head128", {.query = {2, 4, 128, 128}}, "mffccf"},
    {"Head136", {.query = {2, 4, 128, 136}}, "mfffff"},
    // Flash's backward of wide heads does not fit into the shared memory of cards for games.
    {"Head208", {.query = {2, 4, 128, 208}}, "mfeffe"},
    {"Head208InEvaluation", {.query = {2, 4, 128, 208}, .training = false}, "mfffff"},
    {"Head256", {.query = {2, 4, 128, 256}}, "mfffff"},
    {"Head256WithDropout", {.query = {2, 4, 128, 256}, .dropout = 0.125}, "mfeffe"},
    {"Head264", {.query = {2, 4, 128, 264}}, "meeeee"},
    // cuDNN knows dropout in sixteenths.
    {"DropoutOfATenth", {.dropout = 0.1}, "mfffff"},
    {"DropoutOfAnEighth", {.dropout = 0.125}, "mffccf"},
    {"DropoutOfOneQuery", {.query = {2, 4, 1, 64}, .key = {2, 4, 128, 64}, .dropout = 0.125}, "mfffff"},
    {"GroupedQueries", {.query = {2, 8, 128, 64}, .key = {2, 2, 128, 64}, .gqa = true}, "mffccf"},
    {"GroupedQueriesHalfMask",
     {.type = at::kHalf, .query = {2, 8, 128, 64}, .key = {2, 2, 128, 64}, .mask = true, .gqa = true},
     "mmmccm"},
    {"GroupedQueriesFloat",
     {.type = at::kFloat, .query = {2, 8, 128, 64}, .key = {2, 2, 128, 64}, .gqa = true},
     "mmmmmm"},
    {"GroupsThatDoNotDivide", {.query = {2, 7, 128, 64}, .key = {2, 2, 128, 64}, .gqa = true}, "mmmmmm"},
    // Flash aligns a causal mask to the lower right, PyTorch to the upper left.
    {"CausalNotSquare", {.query = {2, 4, 64, 64}, .key = {2, 4, 128, 64}, .causal = true}, "meecce"},
    {"CrossAttention", {.query = {2, 4, 64, 64}, .key = {2, 4, 128, 64}}, "mffccf"},
    {"NarrowValues", {.value = {2, 4, 128, 32}}, "meecce"},
    {"WideQueries", {.query = {2, 4, 128, 192}, .value = {2, 4, 128, 128}}, "meecce"},
    {"OneKey", {.key = {2, 4, 1, 64}}, "mfffff"},
    {"NoKey", {.key = {2, 4, 0, 64}}, "mmmmmm"},
    {"BatchesThatBroadcast", {.key = {1, 4, 128, 64}}, "mmmmmm"},
    {"ThreeDimensions", {.query = {4, 128, 64}}, "mmmmmm"},
};

INSTANTIATE_TEST_SUITE_P(Calls, AttentionChoiceTable, ::testing::ValuesIn(rows),
                         [](const auto& instance) { return instance.param.name; });

using AttentionSwitches = AttentionChoiceTable;

TEST_F(AttentionSwitches, OfTheUserAreObeyed)
{
    at::Context& context = at::globalContext();
    context.setSDPUseFlash(false);
    EXPECT_EQ(choices({}), "meecce");
    context.setSDPUseCuDNN(false);
    EXPECT_EQ(choices({}), "meeeee");
    context.setSDPUseMemEfficient(false);
    EXPECT_EQ(choices({}), "mmmmmm");
    context.setSDPUseFlash(true);
    context.setSDPUseCuDNN(true);
    context.setSDPUseMemEfficient(true);
}

TEST_F(AttentionSwitches, DeterministicTrainingAvoidsCudnn)
{
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    EXPECT_EQ(choices({}), "mfffff");
    context.setDeterministicAlgorithms(false, /*warn_only=*/false);
}

TEST_F(AttentionSwitches, AnOrderOfTheUserIsKept)
{
    at::Context& context = at::globalContext();
    const auto before = context.sDPPriorityOrder();
    context.setSDPPriorityOrder({static_cast<std::int64_t>(at::SDPBackend::math)});
    EXPECT_EQ(choices({}), "mmmmmm");
    std::vector<std::int64_t> order;
    for (const at::SDPBackend backend : before)
        order.push_back(static_cast<std::int64_t>(backend));
    context.setSDPPriorityOrder(order);
}

} // namespace
} // namespace headroom
