// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/module_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>

namespace headroom {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

std::filesystem::path referencePath(const std::string& name)
{
    return std::filesystem::path(HEADROOM_TEST_DATA) / "pytorch" / name;
}

Json reference(const std::string& name)
{
    return Json::parse(std::ifstream(referencePath(name)));
}

ModuleInfo read(const std::string& name)
{
    auto info = readModuleInfo(referencePath(name));
    EXPECT_TRUE(info.ok()) << info.error().message;
    return info.ok() ? *info : ModuleInfo{};
}

/// What the reader says of the reference document after `change`; fails when it accepts it.
std::string errorAfter(const std::function<void(Json&)>& change)
{
    Json document = reference("transformer_modinfo.json");
    change(document);
    const auto info = parseModuleInfo(document.dump(), "doc.json");
    if (info.ok()) {
        ADD_FAILURE() << "the document was accepted";
        return {};
    }
    EXPECT_EQ(info.error().kind, ErrorKind::badInput);
    return info.error().message;
}

/// The same with one module's field replaced.
std::string errorWith(const char* field, const Json& value)
{
    return errorAfter([&](Json& document) { document["mod_stats"][5][field] = value; });
}

TEST(ModuleInfoReader, readsEveryFieldOfPyTorchsDocument)
{
    const ModuleInfo info = read("transformer_modinfo.json");
    ASSERT_EQ(info.stats.size(), 62u);
    EXPECT_EQ(info.fwPreOrder.size(), 62u);
    EXPECT_EQ(info.fwPreOrder.front(), "Transformer");
    EXPECT_EQ(info.fwPostOrder.back(), "Transformer");
    EXPECT_EQ(info.bwPreOrder.size(), 62u);
    EXPECT_EQ(info.bwPostOrder.size(), 62u);
    const Json document = reference("transformer_modinfo.json");
    for (std::size_t i = 0; i < info.stats.size(); ++i) {
        const ModuleStats& stats = info.stats[i];
        const Json& json = document["mod_stats"][i];
        EXPECT_EQ(stats.fqn, json["fqn"].get<std::string>());
        EXPECT_EQ(stats.paramBytes, json["param_per_module"]);
        EXPECT_EQ(stats.gradBytes, json["grad_per_module"]);
        EXPECT_EQ(stats.gradTotal, json["grad_total"]);
        EXPECT_EQ(stats.activationForward, json["act_fw_per_module"]);
        EXPECT_EQ(stats.activationBackward, json["act_bw_per_module"]);
        EXPECT_EQ(stats.activationGrad, json["act_grad_per_module"]);
        EXPECT_EQ(stats.activationTotal, json["act_total"]);
        EXPECT_EQ(stats.inputBytes, json["input_per_module"]);
        EXPECT_EQ(stats.outputBytes, json["output_per_module"]);
        EXPECT_EQ(stats.forwardMs, json["fw_runtime_per_module"]);
        EXPECT_EQ(stats.backwardMs, json["bw_runtime_per_module"]);
        EXPECT_EQ(stats.isLeaf, json["is_leaf"]);
        EXPECT_EQ(stats.sacRuntimeMs, json["sac_runtime"]);
        EXPECT_EQ(stats.sacMemory, json["sac_memory"]);
        EXPECT_EQ(stats.slopes, json["slopes"].get<std::vector<double>>());
        EXPECT_EQ(stats.intercepts, json["intercepts"].get<std::vector<double>>());
        EXPECT_EQ(stats.breakpoints, json["breakpoints"].get<std::vector<double>>());
        EXPECT_EQ(Json(stats.tradeoffCurve), json["tradeoff_curve"]);
    }
}

TEST(ModuleInfoReader, readsEveryReferenceDocument)
{
    EXPECT_EQ(read("transformer_clean_modinfo.json").stats.size(), 62u);
    EXPECT_EQ(read("gpt2_small_12L_modinfo.json").stats.size(), 174u);
    EXPECT_EQ(read("gpt2_medium_24L_modinfo.json").stats.size(), 342u);
    EXPECT_EQ(read("gpt3_175b_96L_modinfo.json").stats.size(), 1350u);
    // Modules are called more than once here: PyTorch's own parse_module_info fails on it.
    const ModuleInfo resnet = read("resnet50_modinfo.json");
    EXPECT_EQ(resnet.stats.size(), 151u);
    EXPECT_EQ(resnet.fwPreOrder.size(), 183u);
}

TEST(ModuleInfoReader, whatIsWrittenIsReadBackEqual)
{
    for (const char* name : {"transformer_modinfo.json", "resnet50_modinfo.json"}) {
        const std::string text = toJson(read(name));
        EXPECT_EQ(Json::parse(text), reference(name)) << name;
        const auto again = parseModuleInfo(text, "again");
        ASSERT_TRUE(again.ok()) << again.error().message;
        EXPECT_EQ(toJson(*again), text) << name;
    }
    EXPECT_TRUE(toJson(read("transformer_modinfo.json")).starts_with("{\n  \"mod_order\": {\n    \"fw_pre_order\": ["));
}

TEST(ModuleInfoReader, ignoresOtherKeys)
{
    Json document = reference("transformer_modinfo.json");
    document["_meta"] = {{"gpu", "NVIDIA A100-SXM4-80GB"}};
    document["mod_stats"][0]["note"] = nullptr;
    document["mod_order"]["note"] = 1;
    EXPECT_TRUE(parseModuleInfo(document.dump(), "doc.json").ok());
}

// Python writes an OrderedDict of floats as an object.
TEST(ModuleInfoReader, takesTheCurveAsAnObject)
{
    Json document = reference("transformer_modinfo.json");
    const auto points = document["mod_stats"][0]["tradeoff_curve"].get<std::vector<std::pair<double, double>>>();
    Json curve = Json::object();
    for (const auto& [share, time] : points)
        curve[Json(share).dump()] = time;
    document["mod_stats"][0]["tradeoff_curve"] = curve;
    const auto info = parseModuleInfo(document.dump(), "doc.json");
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_EQ(info->stats[0].tradeoffCurve, points);

    EXPECT_EQ(errorWith("tradeoff_curve", Json{{"0.5x", 1.0}}),
              "doc.json: mod_stats['Transformer.layers.0.attention_norm'].tradeoff_curve has the key '0.5x', a number "
              "was expected");
}

TEST(ModuleInfoReader, namesModuleAndFieldOfWhatIsWrong)
{
    const std::string module = "doc.json: mod_stats['Transformer.layers.0.attention_norm'].";
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_stats"][5].erase("act_total"); }),
              module + "act_total is missing");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_stats"][5].erase("slopes"); }),
              module + "slopes is missing");
    const std::string bytes = ": expected a whole number, 0 or more";
    EXPECT_EQ(errorWith("param_per_module", -512), module + "param_per_module is -512" + bytes);
    EXPECT_EQ(errorWith("grad_total", 1.5), module + "grad_total is 1.5" + bytes);
    EXPECT_EQ(errorWith("grad_total", 18446744073709551615ull), module + "grad_total is 18446744073709551615" + bytes);
    EXPECT_EQ(errorWith("act_total", "512"), module + "act_total is \"512\"" + bytes);
    EXPECT_EQ(errorWith("is_leaf", 1), module + "is_leaf is 1: expected true or false");
    EXPECT_EQ(errorWith("fw_runtime_per_module", -0.5),
              module + "fw_runtime_per_module is -0.5: expected a number, 0 or more");
    EXPECT_EQ(errorWith("sac_runtime", nullptr), module + "sac_runtime is null: expected a number, 0 or more");
    EXPECT_EQ(errorWith("intercepts", 3), module + "intercepts is 3: expected a list");
    EXPECT_EQ(errorWith("n_segments", 1), module + "slopes has 0 elements, as many as n_segments (1) were expected");
    EXPECT_EQ(errorWith("is_leaf", false), module + "n_segments is 0: expected at least 1 for a module with children");
    EXPECT_EQ(errorWith("breakpoints", Json{0.1, "b"}), module + "breakpoints[1] is \"b\": expected a number");
    EXPECT_EQ(errorWith("tradeoff_curve", Json{{0.1, 0.2}, {0.3}}),
              module + "tradeoff_curve[1] is a list: expected a pair: [share of memory, share of time]");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_stats"][5].erase("fqn"); }),
              "doc.json: mod_stats[5].fqn is missing");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_stats"][5] = 4; }),
              "doc.json: mod_stats[5] is 4: expected an object");
}

TEST(ModuleInfoReader, refusesSegmentsThatDoNotFitTogether)
{
    const std::string root = "doc.json: mod_stats['Transformer'].";
    const auto with = [](const char* field, const Json& value) {
        return errorAfter([&](Json& document) { document["mod_stats"][0][field] = value; });
    };
    EXPECT_EQ(with("intercepts", Json{0.0}),
              root + "intercepts has 1 elements, as many as n_segments (2) were expected");
    EXPECT_EQ(with("breakpoints", Json{0.0, 1.0}),
              root + "breakpoints has 2 elements, one more than n_segments (2) were expected");
    EXPECT_EQ(with("breakpoints", Json{0.0, 0.7, 0.5}), root + "breakpoints is not ascending");
}

// PyTorch's own fit of a module with one candidate, as json.dumps writes it.
TEST(ModuleInfoReader, refusesNaNByName)
{
    for (const char* literal : {"NaN", "Infinity", "-Infinity", "null"}) {
        std::string text = reference("transformer_modinfo.json").dump();
        const std::size_t slopes = text.find("\"slopes\":[") + std::string("\"slopes\":[").size();
        text.replace(slopes, text.find(',', slopes) - slopes, literal);
        const auto info = parseModuleInfo(text, "doc.json");
        ASSERT_FALSE(info.ok()) << literal;
        EXPECT_EQ(info.error().message,
                  "doc.json: mod_stats['Transformer'].slopes[0] is "
                      + std::string(literal == std::string("null") ? "null" : "NaN or infinite")
                      + ": expected a number: PyTorch's fit gives NaN for a module with a single op to recompute; "
                        "remove the module, or set n_segments to 1");
    }
    std::string text = reference("transformer_modinfo.json").dump();
    const std::string field = "\"fw_runtime_per_module\":";
    const std::size_t runtime = text.find(field) + field.size();
    text.replace(runtime, text.find(',', runtime) - runtime, "NaN");
    const auto info = parseModuleInfo(text, "doc.json");
    ASSERT_FALSE(info.ok());
    EXPECT_EQ(info.error().message,
              "doc.json: mod_stats['Transformer'].fw_runtime_per_module is NaN or infinite: expected a number, 0 or "
              "more");
}

TEST(ModuleInfoReader, aNameMayContainPythonsLiterals)
{
    Json document = reference("transformer_modinfo.json");
    std::string text = document.dump();
    for (std::size_t at = text.find("\"Transformer"); at != std::string::npos; at = text.find("\"Transformer", at))
        text.replace(at, 12, "\"NaN\\\"-Infinity");
    const auto info = parseModuleInfo(text, "doc.json");
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_EQ(info->stats[0].fqn, "NaN\"-Infinity");
}

TEST(ModuleInfoReader, checksNamesAgainstOrders)
{
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_order"]["bw_pre_order"].push_back("Transformer.x"); }),
              "doc.json: mod_order.bw_pre_order names the module 'Transformer.x', but mod_stats has no such module");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_order"]["fw_post_order"].erase(1); }),
              "doc.json: mod_order.fw_post_order lacks the module 'Transformer.pos_embeddings' of mod_stats: every "
              "module's place in forward was expected");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_order"].erase("fw_pre_order"); }),
              "doc.json: mod_order.fw_pre_order is missing");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_order"]["fw_pre_order"][3] = 7; }),
              "doc.json: mod_order.fw_pre_order[3] is 7: expected a text");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_stats"].push_back(document["mod_stats"][2]); }),
              "doc.json: mod_stats has the module 'Transformer.pos_embeddings' twice, once was expected");
    // A module without gradients is in no backward order.
    Json document = reference("transformer_modinfo.json");
    document["mod_order"]["bw_pre_order"].clear();
    document["mod_order"]["bw_post_order"].clear();
    EXPECT_TRUE(parseModuleInfo(document.dump(), "doc.json").ok());
}

TEST(ModuleInfoReader, refusesWhatIsNoModuleInfo)
{
    const auto message = [](std::string_view text) {
        const auto info = parseModuleInfo(text, "doc.json");
        return info.ok() ? std::string() : info.error().message;
    };
    const std::string none = "doc.json: is no ModuleInfo document: an object with mod_order and mod_stats was expected";
    EXPECT_EQ(message("[]"), none);
    EXPECT_EQ(message("{\"mod_order\": {}}"), none);
    EXPECT_EQ(message(""), "doc.json: not JSON at line 1, column 1: a JSON document was expected");
    EXPECT_EQ(message("{\n  \"mod_order\": }"),
              "doc.json: not JSON at line 2, column 16: a JSON document was expected");
    EXPECT_EQ(message("{\"a\": 1e400}"), "doc.json: holds a number that is too large");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_stats"] = Json::array(); }),
              "doc.json: mod_stats is empty: expected the statistics of a module or more");
    EXPECT_EQ(errorAfter([](Json& document) { document["mod_order"] = 3; }),
              "doc.json: mod_order is 3: expected an object");
    // What is nested deeper than any document does not hide where the fault is.
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    EXPECT_EQ(message(deep), none);
    EXPECT_EQ(message("{\"a\": " + deep + ", \"mod_order\": 3, \"mod_stats\": []}"),
              "doc.json: mod_order is 3: expected an object");
    const auto missing = readModuleInfo(referencePath("no_such.json"));
    ASSERT_FALSE(missing.ok());
    EXPECT_THAT(missing.error().message, HasSubstr("no_such.json: No such file or directory"));
    const auto folder = readModuleInfo(referencePath(""));
    ASSERT_FALSE(folder.ok());
    EXPECT_THAT(folder.error().message, HasSubstr("expected a regular file, but found a folder"));
}

// Values of ilp_utils.get_peak_memory_runtime_baseline.
TEST(ModuleInfoBaseline, equalsPyTorch)
{
    const Baseline hold = baseline(read("transformer_modinfo.json"));
    EXPECT_EQ(hold.peak, 2583888896);
    EXPECT_NEAR(hold.computeMs, 87.92, 0.005);
    EXPECT_EQ(baseline(read("transformer_clean_modinfo.json")).peak, 2315453440);
    EXPECT_EQ(baseline(ModuleInfo{}).peak, 0);
}

} // namespace
} // namespace headroom
