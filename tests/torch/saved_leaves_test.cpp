// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/saved_leaves.h"

#include <ATen/ATen.h>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Saves one leaf by node after node of a chain. Pack and op have the node's number.
class SavedLeavesTest : public testing::Test
{
protected:
    at::Tensor save(const at::Tensor& input)
    {
        const at::Tensor output = input * leaf_;
        SavedLeaves::Leaf saved;
        saved.pack = PackId(count_);
        saved.op = OpId(count_);
        saved.storage = StorageId(count_++ / 2);
        saved.tensor = leaf_.unsafeGetTensorImpl();
        saved.node = NodeNumber::of(*output.grad_fn());
        leaves_.add(saved);
        leaves_.nodeIsMade(output.grad_fn());
        return output;
    }
    /// Returns the results of `count` nodes.
    std::vector<at::Tensor> saveMany(std::uint32_t count)
    {
        std::vector<at::Tensor> results;
        for (std::uint32_t i = 0; i < count; ++i)
            results.push_back(save(leaf_));
        return results;
    }
    static std::vector<PackId> packs(std::uint32_t first, std::uint32_t end)
    {
        std::vector<PackId> all;
        for (; first < end; ++first)
            all.emplace_back(first);
        return all;
    }

    at::Tensor leaf_ = at::ones({2}).requires_grad_();
    SavedLeaves leaves_;
    std::uint32_t count_ = 0;
};

TEST_F(SavedLeavesTest, ANodeUnpacksItsOwnSave)
{
    const auto results = saveMany(3);
    const auto unpack = [&](std::size_t node, int pass) {
        const auto op = static_cast<std::uint32_t>(node);
        return leaves_.unpackedBy(*results[node].grad_fn(), false, OpId(op), leaf_.unsafeGetTensorImpl(), pass);
    };
    EXPECT_EQ(unpack(1, 0), PackId(1));
    EXPECT_EQ(unpack(1, 0), PackId()); // once in a pass
    EXPECT_EQ(unpack(1, 1), PackId(1));
    EXPECT_EQ(unpack(0, 1), PackId(0));
    EXPECT_THAT(leaves_.takeOf(*results[1].grad_fn()), ElementsAre(PackId(1)));
    EXPECT_THAT(leaves_.takeOf(*results[1].grad_fn()), IsEmpty());
    EXPECT_EQ(unpack(1, 2), PackId());
    EXPECT_THAT(leaves_.takeOf(NodeNumber::of(*results[2].grad_fn())), ElementsAre(PackId(2)));
}

TEST_F(SavedLeavesTest, AFreedStorageHasNoPacks)
{
    const auto results = saveMany(4);
    EXPECT_THAT(leaves_.takeStorage(StorageId(1)), ElementsAre(PackId(2), PackId(3)));
    EXPECT_THAT(leaves_.takeStorage(StorageId(1)), IsEmpty());
    EXPECT_THAT(leaves_.takeOf(*results[3].grad_fn()), ElementsAre(PackId(3))); // autograd has the leaf still
}

TEST_F(SavedLeavesTest, AGraphThatIsDroppedIsFoundAtOnce)
{
    const auto kept = saveMany(100);
    auto dropped = saveMany(100);
    const auto newest = saveMany(3);
    EXPECT_THAT(leaves_.takeOfDestroyed(4), IsEmpty());
    dropped.clear();
    EXPECT_EQ(leaves_.takeOfDestroyed(4), packs(100, 200));
    EXPECT_THAT(leaves_.takeOfDestroyed(), IsEmpty());
}

TEST_F(SavedLeavesTest, OthersAreFoundInTurn)
{
    auto results = saveMany(100);
    results[10].reset();
    results[70].reset();
    std::vector<PackId> found;
    for (int op = 0; op < 12; ++op) {
        const std::vector<PackId> packs = leaves_.takeOfDestroyed(8);
        found.insert(found.end(), packs.begin(), packs.end());
    }
    EXPECT_THAT(found, ElementsAre(PackId(10), PackId(70)));
    results[50].reset();
    results[20].reset();
    EXPECT_THAT(leaves_.takeOfDestroyed(), ElementsAre(PackId(20), PackId(50)));
}

TEST_F(SavedLeavesTest, ManySavesTakeNoLongerEach)
{
    constexpr std::uint32_t many = 100'000;
    const auto begin = std::chrono::steady_clock::now();
    const auto results = saveMany(many);
    for (std::uint32_t i = many; i-- > 0;) {
        const auto& node = *results[i].grad_fn();
        ASSERT_EQ(leaves_.unpackedBy(node, false, OpId(i), leaf_.unsafeGetTensorImpl(), 0), PackId(i));
        ASSERT_EQ(leaves_.takeOfDestroyed(16).size(), 0U);
        ASSERT_EQ(leaves_.takeOf(node).size(), 1U);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)); // a look at all takes minutes
}

} // namespace
} // namespace headroom
