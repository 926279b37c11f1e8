// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// .pt2 files on the CPU, bit for bit what PyTorch computes. The last bits of a sum depend on the machine's vector
// units, so that the Python beside the libtorch in use says what is expected: tests/data/exported/run_eager.py. Inputs
// and parameters are those of forward_backward.json.
#include "core/model/exported/exported_model.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <boost/beast/core/detail/base64.hpp>
#include <boost/crc.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace headroom::exported {
namespace {

namespace base64 = boost::beast::detail::base64;

nlohmann::json references()
{
    std::ifstream file(HEADROOM_TEST_DATA "/exported/forward_backward.json");
    return nlohmann::json::parse(file);
}

at::Tensor tensorOf(const nlohmann::json& json)
{
    const auto text = json["bytes"].get<std::string>();
    std::vector<std::byte> bytes(base64::decoded_size(text.size()));
    base64::decode(bytes.data(), text.data(), text.size());
    at::Tensor tensor
        = at::empty(json["shape"].get<std::vector<std::int64_t>>(), json["dtype"] == "int64" ? at::kLong : at::kFloat);
    std::memcpy(tensor.mutable_data_ptr(), bytes.data(), tensor.nbytes());
    return tensor;
}

void expectBits(const at::Tensor& tensor, const nlohmann::json& expected, const std::string& what)
{
    ASSERT_TRUE(tensor.defined()) << what;
    EXPECT_EQ(tensor.sizes().vec(), expected["shape"].get<std::vector<std::int64_t>>()) << what;
    const at::Tensor dense = tensor.detach().contiguous();
    boost::crc_32_type crc;
    crc.process_bytes(dense.data_ptr(), dense.nbytes());
    EXPECT_EQ(crc.checksum(), expected["crc32"].get<std::uint32_t>()) << what;
}

/// What Python computes for a model on this machine; null where it cannot.
nlohmann::json runEager(const std::string& name)
{
    const auto path = std::filesystem::path(testing::TempDir()) / ("headroom_eager_" + name + ".json");
    const std::string command = "'" HEADROOM_TORCH_PYTHON "' '" HEADROOM_TEST_DATA "/exported/run_eager.py' " + name
        + " > '" + path.string() + "' 2>/dev/null";
    const bool ran = std::system(command.c_str()) == 0;
    std::ifstream file(path);
    nlohmann::json answer = ran ? nlohmann::json::parse(file) : nlohmann::json();
    std::filesystem::remove(path);
    return answer;
}

class Eager : public testing::TestWithParam<const char*>
{
};

TEST_P(Eager, ForwardAndGradientsAreTheSameBits)
{
    const std::string name = GetParam();
    const nlohmann::json reference = references()[name];
    if (std::system("'" HEADROOM_TORCH_PYTHON "' -c 'import torch' >/dev/null 2>&1") != 0)
        GTEST_SKIP() << "the Python beside libtorch cannot import torch";
    const nlohmann::json expected = runEager(name);
    ASSERT_TRUE(expected.is_object()) << "run_eager.py failed";
    at::set_num_threads(1);
    auto program = readExportedProgram(std::filesystem::path(HEADROOM_TEST_DATA "/exported/" + name + ".pt2"));
    ASSERT_TRUE(program) << program.error().message;
    ModelRequest request;
    auto model = ExportedModel::open(std::move(*program), request);
    ASSERT_TRUE(model) << model.error().message;
    std::vector<at::Tensor> inputs;
    for (const nlohmann::json& input : reference["inputs"])
        inputs.push_back(tensorOf(input));
    ASSERT_EQ((*model)->inputs().size(), inputs.size());
    (*model)->setInputs(std::move(inputs));

    const std::vector<at::Tensor> results = (*model)->forward();
    ASSERT_EQ(results.size(), 1U);
    expectBits(results.front(), expected["loss"], "loss");
    results.front().backward();
    ASSERT_FALSE(expected["gradients"].empty());
    for (const auto& [parameter, bits] : reference["parameters"].items())
        expectBits((*model)->tensors().at(parameter), bits, parameter);
    for (const auto& [parameter, bits] : expected["gradients"].items())
        expectBits((*model)->tensors().at(parameter).grad(), bits, "gradient of " + parameter);
}

constexpr std::array models{"bert_tiny_nodrop",       "gpt2_tiny_nodrop", "llama_tiny", "mlp_gelu", "toy",
                            "transformer_tiny_nodrop"};
INSTANTIATE_TEST_SUITE_P(Models, Eager, testing::ValuesIn(models));

} // namespace
} // namespace headroom::exported
