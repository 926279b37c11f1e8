// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"
#include "core/timeline/live_tree.h"
#include "core/timeline/range_summary.h"
#include "core/trace/source_lines.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace headroom;

namespace {

constexpr const char* site = "/env/lib/python3.11/site-packages/";

/// A script that calls a model of a library, and a block of its own.
struct Program
{
    StepTraceBuilder builder;
    ModuleId net, layer;
    FrameId main, call, linear, own;
    OpId library, ofOwn, backward, nowhere;
    StorageId weight, activation, loss;
    StepTracePtr step;

    Program()
    {
        net = builder.addModule("Net", "Net", {});
        layer = builder.addModule("Net.layer", "Layer", net);
        main = builder.frame({}, "/home/me/train.py", "main", 42);
        call = builder.frame(main, site + std::string("torch/nn/modules/module.py"), "Module._call_impl", 1700);
        const FrameId model = builder.frame(call, site + std::string("models/llama.py"), "MLP.forward", 289);
        linear = builder.frame(model, site + std::string("torch/nn/modules/linear.py"), "Linear.forward", 125);
        own = builder.frame(call, "/home/me/model.py", "Block.forward", 57);
        weight = builder.alloc(512, Category::parameter, {});
        builder.setFrame(weight, builder.frame({}, "/home/me/train.py", "main", 7));
        builder.addRegistered(layer, "weight", weight, Category::parameter);
        builder.mark(Mark::stepBegin);
        library = op("aten.mm.default", layer, linear, {});
        activation = builder.alloc(2048, Category::activation, library);
        builder.endOp(library, {});
        ofOwn = op("aten.mul.Tensor", net, own, {});
        loss = builder.alloc(1024, Category::activation, ofOwn);
        builder.endOp(ofOwn, {});
        backward = op("aten.mm.default", layer, {}, library);
        builder.endOp(backward, {});
        nowhere = op("aten.mm.default", layer, {}, {});
        builder.endOp(nowhere, {});
        step = *builder.finish();
    }

    OpId op(const char* name, ModuleId module, FrameId frame, OpId forward)
    {
        StepTraceBuilder::Op op;
        op.name = builder.string(name);
        op.module = module;
        op.forwardOp = forward;
        op.phase = forward.valid() ? Phase::backward : Phase::forward;
        op.frame = frame;
        return builder.beginOp(op);
    }
};

} // namespace

TEST(SourceLines, OneLineIsAsAmongAll)
{
    const Program program;
    const SourceLines lines(*program.step);
    for (std::uint32_t row = 0; row < program.step->frames.size(); ++row) {
        const FrameId frame(row);
        EXPECT_EQ(lineOf(*program.step, frame), lines[lines.lineOf(frame)]) << row;
        EXPECT_EQ(lineText(*program.step, lineOf(*program.step, frame)), lines.text(lines.lineOf(frame)));
    }
    EXPECT_EQ(lineText(*program.step, lineOf(*program.step, FrameId())), "");
    EXPECT_EQ(lineOf(*program.step, program.linear).shown(), program.main) << "the user's own line";
}

TEST(SourceLines, ALineIsTheUsersOwnThenThatOfALibraryOfModels)
{
    const Program program;
    const SourceLines lines(*program.step);
    EXPECT_EQ(lines.text(program.library), "train.py:42 > llama.py:289 MLP.forward");
    EXPECT_EQ(lines.text(program.ofOwn), "model.py:57 Block.forward");
    EXPECT_EQ(lines.text(program.backward), lines.text(program.library)) << "the forward op's";
    EXPECT_EQ(lines.lineOf(program.nowhere), SourceLines::none);
    EXPECT_EQ(lines.text(program.nowhere), "");
    EXPECT_EQ(lines.text(program.weight), "train.py:7 main");
    EXPECT_EQ(lines.text(program.activation), lines.text(program.library));
}

TEST(SourceLines, EqualFramesShareARow)
{
    StepTraceBuilder builder;
    const FrameId outer = builder.frame({}, "a.py", "main", 1);
    EXPECT_EQ(builder.frame({}, "a.py", "main", 1), outer);
    const FrameId inner = builder.frame(outer, "a.py", "main", 1);
    EXPECT_NE(inner, outer);
    EXPECT_NE(builder.frame(outer, "a.py", "main", 2), inner);
}

TEST(SourceLines, PyTorchsFramesStandOnlyWhereThereIsNoOther)
{
    StepTraceBuilder builder;
    const FrameId engine = builder.frame({}, "??", "torch::autograd::Engine::evaluate_function", 0);
    const StorageId block = builder.alloc(512, Category::other, {});
    builder.setFrame(block, engine);
    builder.mark(Mark::stepBegin);
    const StepTracePtr step = *builder.finish();
    EXPECT_EQ(SourceLines(*step).text(block), "?? torch::autograd::Engine::evaluate_function");
}

TEST(SourceLines, ControlCharactersOfAFileAreReplaced)
{
    StepTraceBuilder builder;
    const StorageId block = builder.alloc(512, Category::other, {});
    builder.setFrame(block, builder.frame({}, "/me/\x1b[31m.py", "f\n", 3));
    builder.mark(Mark::stepBegin);
    const StepTracePtr step = *builder.finish();
    EXPECT_EQ(SourceLines(*step).text(block), "?[31m.py:3 f?");
}

TEST(SourceLines, LibrariesAreToldByTheirFolders)
{
    EXPECT_TRUE(isLibraryFile(site + std::string("transformers/trainer.py")));
    EXPECT_TRUE(isLibraryFile("/usr/lib/python3/dist-packages/numpy/core.py"));
    EXPECT_TRUE(isLibraryFile("/usr/lib/python3.11/contextlib.py"));
    EXPECT_TRUE(isLibraryFile("<string>"));
    EXPECT_FALSE(isLibraryFile("/home/me/torch/train.py"));
    EXPECT_FALSE(isLibraryFile("model.py"));
}

TEST(SourceLines, AFileKeepsTheFrames)
{
    const Program program;
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "source_lines.hrs";
    ASSERT_TRUE(writeStepTrace(*program.step, path).ok());
    const auto read = readStepTrace(path);
    ASSERT_TRUE(read.ok()) << read.error().message;
    const SourceLines lines(**read);
    for (const OpId op : {program.library, program.ofOwn, program.backward, program.nowhere})
        EXPECT_EQ(lines.text(op), SourceLines(*program.step).text(op));
    EXPECT_EQ(lines.text(program.weight), "train.py:7 main");
    std::filesystem::remove(path);
}

TEST(LiveTree, BytesOfANodeAreThoseOfItsChildren)
{
    const Program program;
    const auto timeline = predict(*program.step, {});
    ASSERT_TRUE(timeline.ok());
    for (const LiveTree::By by : {LiveTree::By::category, LiveTree::By::module}) {
        const LiveTree tree = liveTree(*program.step, *timeline, timeline->peakChange + 1, by);
        EXPECT_EQ(tree.root().bytes, timeline->peak);
        EXPECT_EQ(tree.root().blocks, 3U);
        for (const LiveTree::Node& node : tree.nodes) {
            Bytes sum = 0;
            for (std::uint32_t child = 0; child < node.children; ++child) {
                EXPECT_EQ(tree.nodes[tree.nodes[node.firstChild + child].parent].name, node.name);
                sum += tree.nodes[node.firstChild + child].bytes;
            }
            EXPECT_TRUE(node.children == 0 || sum == node.bytes) << node.name;
        }
    }
}

TEST(LiveTree, FoldedStacksHaveALineForEachBlock)
{
    const Program program;
    const auto timeline = predict(*program.step, {});
    const std::size_t count = timeline->peakChange + 1;
    EXPECT_EQ(foldedStacks(liveTree(*program.step, *timeline, count, LiveTree::By::category)),
              "activation;train.py:42 > llama.py:289 MLP.forward;aten.mm.default 2048\n"
              "activation;model.py:57 Block.forward;aten.mul.Tensor 1024\n"
              "parameter;train.py:7 main;weight 512\n");
    EXPECT_EQ(foldedStacks(liveTree(*program.step, *timeline, count, LiveTree::By::module)),
              "Net;model.py:57 Block.forward;aten.mul.Tensor 1024\n"
              "Net;layer;train.py:42 > llama.py:289 MLP.forward;aten.mm.default 2048\n"
              "Net;layer;train.py:7 main;weight 512\n");
}

TEST(LiveTree, ABlockLivesFromItsAllocationToItsFree)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    const StorageId weight = builder.alloc(512, Category::parameter, {});
    builder.mark(Mark::stepBegin);
    std::vector<StorageId> made;
    for (int i = 0; i < 3; ++i) {
        StepTraceBuilder::Op op;
        op.name = builder.string("op");
        op.module = net;
        const OpId id = builder.beginOp(op);
        made.push_back(builder.alloc(1024, Category::temporary, id));
        StepTraceBuilder::OpResult result;
        result.ms = 1;
        builder.endOp(id, result);
        if (i == 1)
            builder.retype(made[1], Category::gradient);
    }
    builder.free(made[0]);
    const StepTracePtr step = *builder.finish();
    const auto timeline = predict(*step, {});
    ASSERT_TRUE(timeline.ok());
    const std::vector<LiveBlock> blocks = liveBlocks(*step, *timeline, timeline->peakChange + 1);
    const std::vector<Lifetime> lives = lifetimes(*timeline, timeline->peakChange + 1, blocks);
    ASSERT_EQ(lives.size(), 4U);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const Lifetime& life = lives[i];
        EXPECT_EQ(life.fromBefore, blocks[i].storage == weight);
        EXPECT_EQ(life.outlives, blocks[i].storage != made[0]);
        for (std::size_t op = 0; op < made.size(); ++op)
            EXPECT_TRUE(blocks[i].storage != made[op] || life.beginMs == static_cast<double>(op)) << "not a new block";
    }
}

TEST(RangeSummary, NamesTheLinesThatMakeMost)
{
    const Program program;
    const auto timeline = predict(*program.step, {});
    ASSERT_TRUE(timeline.ok());
    const RangeSummary summary = summaryOf(*program.step, *timeline, {0, timeline->durationMs});
    ASSERT_EQ(summary.lines.size(), 2U);
    EXPECT_EQ(summary.source->text(summary.lines[0].id), "train.py:42 > llama.py:289 MLP.forward");
    EXPECT_EQ(summary.lines[0].bytes, 2048);
    EXPECT_EQ(summary.lines[0].blocks, 1);
    EXPECT_EQ(summary.source->text(summary.lines[1].id), "model.py:57 Block.forward");
}
