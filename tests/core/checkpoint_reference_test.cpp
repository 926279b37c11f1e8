// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/step_model.h"
#include "core/trace/step_trace_builder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

using namespace headroom;
using nlohmann::json;

/// What PyTorch's own checkpoint did on small steps, byte by byte: tests/data/checkpoint/make_reference.py.
namespace {

std::vector<StorageId> storageIds(const json& numbers)
{
    std::vector<StorageId> ids;
    for (const json& number : numbers)
        ids.emplace_back(number.get<std::uint32_t>());
    return ids;
}

/// The recorded step of a reference file as a trace.
class Reference
{
public:
    explicit Reference(const std::string& name)
    {
        std::ifstream file(std::string(HEADROOM_TEST_DATA) + "/checkpoint/" + name + ".json");
        document_ = json::parse(file);
        root_ = builder_.addModule("Net", "Net", {});
        const auto& kinds = document_["kinds"];
        const auto& events = document_["events"];
        for (std::size_t i = 0; i < events.size(); i += 2)
            add(kinds[events[i].get<std::size_t>()], events[i + 1]);
    }

    const json& executed() const { return document_["executed"]; }

    StepModel model()
    {
        auto trace = builder_.finish();
        if (!trace)
            throw std::runtime_error(trace.error().message);
        return StepModel(*trace);
    }

    CheckpointPlan plan(const StepModel& model, const json& regions) const
    {
        CheckpointPlan plan;
        for (const auto& [fqn, saved] : regions.items()) {
            CheckpointRegion region;
            region.module = modules_.at(fqn);
            if (!saved.empty())
                region.save.resize(model.regionOps(region.module).size(), false);
            for (const json& op : saved)
                region.save.at(op.get<std::size_t>()) = true;
            plan.push_back(std::move(region));
        }
        return plan;
    }

private:
    ModuleId module(const std::string& fqn)
    {
        const auto known = modules_.find(fqn);
        if (known != modules_.end())
            return known->second;
        const auto dot = fqn.rfind('.');
        const auto parent = dot == std::string::npos ? modules_.end() : modules_.find(fqn.substr(0, dot));
        const ModuleId id = builder_.addModule(fqn, "", parent == modules_.end() ? root_ : parent->second);
        modules_.emplace(fqn, id);
        return id;
    }

    void add(const std::string& kind, std::uint32_t number)
    {
        if (kind == "alloc")
            builder_.alloc(document_["storages"][number].get<Bytes>(), Category::activation, op_);
        else if (kind == "free")
            builder_.free(StorageId(number));
        else if (kind == "opBegin")
            op_ = builder_.beginOp(
                {builder_.string(document_["ops"][number][0].get<std::string>()), {}, {}, {}, {}, {}});
        else if (kind == "opEnd")
            endOp(document_["ops"][number]);
        else if (kind == "enter")
            calls_.push_back(
                builder_.enter(module(document_["calls"][number][0]), storageIds(document_["calls"][number][1])));
        else if (kind == "exit")
            builder_.exit(CallId(number), {});
        else if (kind == "mark")
            builder_.mark(static_cast<Mark>(number));
        else
            addAutograd(kind, number);
    }

    void endOp(const json& op)
    {
        const auto outputs = storageIds(op[2]);
        const auto mutated = storageIds(op[3]);
        StepTraceBuilder::OpResult result;
        result.flags = op[1].get<bool>() ? opSacIgnored : 0;
        result.ms = 1;
        result.outputs = outputs;
        result.mutated = mutated;
        builder_.endOp(op_, result);
        op_ = {};
    }

    void addAutograd(const std::string& kind, std::uint32_t number)
    {
        const PackId pack(number);
        if (kind == "pack")
            builder_.pack(StorageId(document_["packs"][number].get<std::uint32_t>()), op_);
        else if (kind == "unpack")
            builder_.unpack(pack);
        else if (kind == "unpackEnd")
            builder_.unpackEnd(pack);
        else if (kind == "release")
            builder_.release(pack);
        else
            throw std::runtime_error("unknown kind of event: " + kind);
    }

    json document_;
    StepTraceBuilder builder_;
    ModuleId root_;
    std::map<std::string, ModuleId> modules_;
    std::vector<CallId> calls_;
    OpId op_;
};

class CheckpointReference : public ::testing::TestWithParam<const char*>
{
};

} // namespace

TEST_P(CheckpointReference, EveryPlanIsPredictedToTheByte)
{
    Reference reference(GetParam());
    const StepModel model = reference.model();
    ASSERT_GE(reference.executed().size(), 10U);
    for (const json& executed : reference.executed()) {
        const auto timeline = model.predict(reference.plan(model, executed["plan"]));
        ASSERT_TRUE(timeline) << timeline.error().message;
        std::vector<Bytes> afterAllocations;
        Bytes live = total(timeline->start);
        for (const MemoryChange& change : timeline->changes) {
            live += change.delta;
            if (change.delta > 0)
                afterAllocations.push_back(live);
        }
        EXPECT_EQ(afterAllocations, executed["live"].get<std::vector<Bytes>>()) << executed["plan"];
        EXPECT_EQ(live, executed["end"].get<Bytes>()) << executed["plan"];
    }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, CheckpointReference,
                         ::testing::Values("transformer", "convolution", "shared", "trunk", "teacher", "autocast"),
                         [](const auto& name) { return std::string(name.param); });
