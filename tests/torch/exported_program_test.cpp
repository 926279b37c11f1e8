// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What a damaged or foreign .pt2 file is told. The file is one of tests/data/exported/make_models.py, changed.
#include "core/model/exported/exported_model.h"
#include "core/model/source.h"
#include "tests/core/temporary_folder.h"
#include "tests/torch/stored_zip.h"

#include <caffe2/serialize/inline_container.h>

#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace headroom::exported {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string folder = HEADROOM_TEST_DATA "/exported/";

class ChangedFile : public testing::Test
{
protected:
    ChangedFile()
    {
        const auto archive = ZipArchive::open(folder + "twice.pt2");
        EXPECT_TRUE(archive) << archive.error().message;
        for (const char* name :
             {"models/model.json", "data/weights/model_weights_config.json",
              "data/constants/model_constants_config.json", "data/weights/weight_0", "data/weights/weight_1",
              "data/weights/weight_2", "data/weights/weight_3", ".data/version"}) {
            const auto bytes = archive->record(name);
            EXPECT_TRUE(bytes) << name;
            records_[name] = std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
        }
    }
    void changeModel(const std::function<void(json&)>& change)
    {
        json model = json::parse(records_["models/model.json"]);
        change(model);
        records_["models/model.json"] = model.dump();
    }
    /// What opening the file says; without its path.
    std::string message(const std::string& bytes)
    {
        std::ofstream(path_, std::ios::binary) << bytes;
        ModelRequest request;
        request.name = path_.string();
        const auto model = openModel(request);
        if (model)
            return "opened";
        EXPECT_EQ(model.error().kind, ErrorKind::badInput);
        EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
        std::string text = model.error().message;
        for (std::size_t at = text.find(path_.string()); at != std::string::npos; at = text.find(path_.string()))
            text.replace(at, path_.string().size(), "x.pt2");
        return text;
    }
    std::string message() { return message(storedZip(records_)); }

    TemporaryFolder folder_;
    std::filesystem::path path_ = folder_.path() / "x.pt2";
    std::map<std::string, std::string> records_;
};

json& nodesOf(json& model)
{
    return model["graph_module"]["graph"]["nodes"];
}

TEST_F(ChangedFile, UnchangedItOpens)
{
    EXPECT_EQ(message(), "opened");
}

TEST_F(ChangedFile, WithoutItsRecordsItIsNoModel)
{
    const std::string none = "x.pt2 is no PyTorch archive (.pt2 or TorchScript), or is damaged or incomplete: "
                             "PytorchStreamReader failed reading zip archive: ";
    EXPECT_EQ(message("PK?"), none + "not a ZIP archive");
    const std::string whole = storedZip(records_);
    EXPECT_EQ(message(whole.substr(0, whole.size() - 30)), none + "failed finding central directory");
    EXPECT_EQ(message(whole.substr(1000)), none + "invalid header or archive is corrupted");
    records_.erase("data/weights/model_weights_config.json");
    EXPECT_EQ(message(), "x.pt2: the archive has no 'data/weights/model_weights_config.json'");
    records_.erase("models/model.json");
    EXPECT_THAT(message(), testing::StartsWith("x.pt2 is not a model file that Headroom reads; expected"));
}

TEST_F(ChangedFile, ACompressedRecordIsNamed)
{
    std::string archive;
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
        archive.append(static_cast<const char*>(data), size);
        return size;
    });
    for (const auto& [name, content] : records_)
        if (!name.starts_with(".data/"))
            writer.writeRecord(name, content.data(), content.size(), name == "models/model.json");
    writer.writeEndOfFile();
    EXPECT_THAT(message(archive), testing::StartsWith("x.pt2: 'models/model.json' is compressed or damaged; "));
}

// What fuzzing has found interesting stays a test of every build.
TEST_F(ChangedFile, EveryTruncationAndTheCorpusOfFuzzingAreReadOrRefused)
{
    const std::string whole = storedZip(records_);
    for (std::size_t size = 0; size < whole.size(); size += 97)
        EXPECT_THAT(message(whole.substr(0, size)), testing::StartsWith("x.pt2 is no PyTorch archive")) << size;
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(HEADROOM_SOURCE_DIR "/tests/fuzz/corpus/exported_program")) {
        const auto program = readExportedProgram(entry.path());
        EXPECT_TRUE(program || !program.error().message.empty()) << entry.path();
        ++files;
    }
    EXPECT_GT(files, 30);
}

TEST_F(ChangedFile, WrongJsonIsNamedByItsPath)
{
    changeModel([](json& model) { nodesOf(model)[2]["target"] = 5; });
    EXPECT_EQ(message(), "x.pt2: models/model.json: graph_module.graph.nodes[2].target is 5: expected a text");
    changeModel([](json& model) { nodesOf(model)[2].erase("target"); });
    EXPECT_EQ(message(), "x.pt2: models/model.json: graph_module.graph.nodes[2].target is missing");
    records_["models/model.json"].resize(100);
    EXPECT_EQ(message(), "x.pt2: models/model.json: not JSON at line 1, column 100: a JSON document was expected");
}

TEST_F(ChangedFile, AnArgumentOfAnotherTypeIsNamed)
{
    changeModel([](json& model) { nodesOf(model)[2]["inputs"][1]["arg"] = {{"as_custom_obj", {{"name", "o"}}}}; });
    EXPECT_EQ(message(),
              "x.pt2: models/model.json: graph_module.graph.nodes[2].inputs[1].arg has 'as_custom_obj': expected an "
              "argument that Headroom knows");
    changeModel([](json& model) { nodesOf(model)[2]["inputs"][1]["arg"] = {{"as_string", "much"}}; });
    EXPECT_THAT(message(),
                testing::MatchesRegex("x.pt2: aten.dropout.default in Twice.drop \\(.*\\) got an argument "
                                      "that is no float"));
}

TEST_F(ChangedFile, AnotherSchemaIsRefused)
{
    changeModel([](json& model) { model["schema_version"]["major"] = 9; });
    EXPECT_THAT(message(),
                testing::MatchesRegex("x.pt2 has schema version 9 of torch.export \\(torch 2.11.0.*\\), and "
                                      "Headroom reads version 8; export the model with torch [0-9.]+ to [0-9.]+"));
}

TEST_F(ChangedFile, AnUnknownOperatorIsNamedWithItsModule)
{
    changeModel([](json& model) { nodesOf(model)[0]["target"] = "torch.ops.mine.special.default"; });
    EXPECT_THAT(message(),
                testing::MatchesRegex("x.pt2: mine.special.default in Twice.linear \\(.*:[0-9]+\\) is an operator that "
                                      "libtorch does not have; .*"));
}

TEST_F(ChangedFile, AnOperatorThatIsNoneOnTensorsIsRefused)
{
    const auto text = [](const char* name, const char* value) {
        return json{{"name", name}, {"arg", {{"as_string", value}}}, {"kind", 1}};
    };
    const std::filesystem::path victim = folder_.path() / "victim";
    std::ofstream(victim) << "kept";
    const json file = text("filename", victim.c_str());
    const json shared{{"name", "shared"}, {"arg", {{"as_bool", true}}}, {"kind", 1}};
    const json result{{"as_tensor", {{"name", "evil"}}}};
    for (const json& node :
         {json{{"target", "torch.ops.aten.from_file.default"}, {"inputs", {file, shared}}, {"outputs", {result}}},
          json{{"target", "torch.ops.aten._print.default"}, {"inputs", {text("s", "x")}}, {"outputs", json::array()}},
          json{{"target", "torch.ops.quantized.linear_prepack.default"},
               {"inputs", json::array()},
               {"outputs", json::array()}}}) {
        const auto before = records_;
        changeModel([&](json& model) { nodesOf(model).insert(nodesOf(model).begin(), node); });
        EXPECT_THAT(message(),
                    HasSubstr(" is none of the operators on tensors, numbers and texts that a model needs: "))
            << node;
        records_ = before;
    }
    EXPECT_EQ(std::filesystem::file_size(victim), 4U);
}

TEST_F(ChangedFile, AValueThatNobodyMakesIsNamed)
{
    changeModel([](json& model) { nodesOf(model)[0]["inputs"][0]["arg"]["as_tensor"]["name"] = "ghost"; });
    EXPECT_THAT(message(), HasSubstr("uses 'ghost', but no earlier node makes that value"));
}

TEST_F(ChangedFile, AShortWeightIsNamed)
{
    records_["data/weights/weight_0"].resize(16);
    EXPECT_THAT(message(),
                testing::MatchesRegex("x.pt2: data/weights/model_weights_config.json: config.*tensor_meta needs 1024 "
                                      "bytes, but data/weights/weight_0 has 16"));
}

TEST_F(ChangedFile, DeepGraphsAreRefused)
{
    changeModel([](json& model) {
        json graph = model["graph_module"]["graph"];
        for (int depth = 0; depth < 40; ++depth) {
            json node = nodesOf(model)[0];
            node["inputs"][0]["arg"] = {{"as_graph", {{"name", "g"}, {"graph", graph}}}};
            graph["nodes"] = json::array({node});
        }
        model["graph_module"]["graph"] = graph;
    });
    EXPECT_THAT(message(), HasSubstr("expected graphs nested at most 32 deep"));
}

} // namespace
} // namespace headroom::exported
