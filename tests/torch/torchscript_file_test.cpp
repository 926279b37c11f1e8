// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/source.h"
#include "core/model/torchscript_file.h"

#include <caffe2/serialize/inline_container.h>

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

namespace headroom {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

std::span<const std::byte> bytesOf(const std::string& text)
{
    return std::as_bytes(std::span(text));
}

Result<Pickle> read(const std::string& program)
{
    return Pickle::read(bytesOf(program), "data.pkl");
}

/// A pickle that torch.jit.save does not write: what read() says about it.
std::string refused(const std::string& program)
{
    const auto pickle = read(program);
    EXPECT_FALSE(pickle) << program;
    return pickle ? "" : pickle.error().message;
}

const std::string head = "\x80\x02";
const std::string storage = "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuK\x06tQ"s; ///< of 6 floats

/// A tensor in `storage` with these sizes and strides, as tuples.
std::string tensor(const std::string& sizes, const std::string& strides)
{
    return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + "K\0"s + sizes + strides
        + "\x89"
          "ccollections\nOrderedDict\n)RtR";
}

TEST(Pickle, HoldsTheValuesOfItsProgram)
{
    const auto pickle
        = read(head + "}(X\1\0\0\0aK\7X\1\0\0\0bNX\1\0\0\0c\x88X\1\0\0\0dM\0\2X\1\0\0\0eJ\xff\xff\xff\xffu."s);
    ASSERT_TRUE(pickle) << pickle.error().message;
    EXPECT_EQ(pickle->find(pickle->root(), "a")->integer, 7);
    EXPECT_EQ(pickle->find(pickle->root(), "b")->type, Pickle::Type::none);
    EXPECT_EQ(pickle->find(pickle->root(), "c")->integer, 1);
    EXPECT_EQ(pickle->find(pickle->root(), "d")->integer, 512);
    EXPECT_EQ(pickle->find(pickle->root(), "e")->integer, -1);
    EXPECT_EQ(pickle->find(pickle->root(), "f"), nullptr);
}

TEST(Pickle, ATensorSaysWhereItLies)
{
    const auto pickle = read(head + tensor("K\2K\3\x86", "K\3K\1\x86") + ".");
    ASSERT_TRUE(pickle) << pickle.error().message;
    ASSERT_EQ(pickle->tensors().size(), 1U);
    const Pickle::Tensor& found = pickle->tensors().front();
    EXPECT_EQ(found.dtype, at::kFloat);
    EXPECT_EQ(found.storage, "0");
    EXPECT_EQ(found.storageElements, 6);
    EXPECT_EQ(found.sizes, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(found.strides, (std::vector<std::int64_t>{3, 1}));
    EXPECT_FALSE(found.requiresGrad);
}

// What libtorch's unpickler would take as it is.
TEST(Pickle, RefusesWhatWouldCrashLibtorch)
{
    EXPECT_THAT(refused(""), HasSubstr("data.pkl ends too early (byte 0)"));
    EXPECT_THAT(refused(head), HasSubstr("ends too early"));
    EXPECT_THAT(refused(head + "0."), HasSubstr("holds opcode 48, never written by torch.jit.save (byte 3)"));
    EXPECT_THAT(refused(head + "R."), HasSubstr("takes a value that is not there"));
    EXPECT_THAT(refused(head + "(K\1(R."), HasSubstr("takes a value that is not there"));
    EXPECT_THAT(refused(head + "t."), HasSubstr("ends a group that has no beginning"));
    EXPECT_THAT(refused(head + "K\1K\2."), HasSubstr("ends with several values"));
    EXPECT_THAT(refused(head + "h\5."), HasSubstr("refers to a value that is not there"));
    EXPECT_THAT(refused(head + "Nr\xff\xff\xff\xff."), HasSubstr("remembers values out of order"));
    EXPECT_THAT(refused(head + "X\xff\xff\xff\xffx."), HasSubstr("ends too early"));
    EXPECT_THAT(refused(head + "cos\nsystem\n(X\2\0\0\0lstR."s),
                HasSubstr("uses os.system, and Headroom reads no such class in a TorchScript file"));
    EXPECT_THAT(refused(head + "K\1)R."), HasSubstr("calls something that cannot be called"));
    EXPECT_THAT(refused(head + "ctorch\nFloatStorage\n."), HasSubstr("is no value"));
    EXPECT_THAT(refused(head + "]q\0h\0a."s), HasSubstr("holds a value in a wrong place"));
    EXPECT_THAT(refused(head + "}((K\1tK\2u."), HasSubstr("a key that is no text and no number"));
    EXPECT_THAT(refused(head + tensor("K\2K\4\x86", "K\4K\1\x86") + "."), HasSubstr("larger than the storage"));
    EXPECT_THAT(refused(head + tensor("K\2K\3\x86", "K\1\x85") + "."), HasSubstr("larger than the storage"));
    EXPECT_THAT(refused(head + tensor("J\xff\xff\xff\xff\x85", "K\1\x85") + "."), HasSubstr("larger than the storage"));
    std::string deep = head;
    for (int i = 0; i < 300; ++i)
        deep += "]";
    EXPECT_THAT(refused(deep + std::string(299, 'a') + "."), HasSubstr("nested too deep"));
    std::string doubling = head + ")q\0"s;
    for (char i = 0; i < 40; ++i)
        doubling += "h"s + i + "h" + i + "\x86q" + static_cast<char>(i + 1);
    EXPECT_THAT(refused(doubling + "."), HasSubstr("nested too deep"));
}

TEST(TorchScriptCode, NestsOnlyAsDeepAsTheParserCan)
{
    const auto wrong = [](const std::string& code) {
        const Status checked = checkTorchScriptCode(code, "model.pt: code/a.py");
        return checked ? "" : checked.error().message;
    };
    EXPECT_EQ(wrong("class A(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return torch.add(x, -1)\n"), "");
    EXPECT_EQ(wrong("x = [" + std::string(5000, '1') + "]\n"), "");
    EXPECT_EQ(wrong("a = 1\n" + std::string(200, '(') + "\n"),
              "model.pt: code/a.py, line 2, has brackets that are nested too deep; torch.jit.save writes no such code");
    EXPECT_THAT(wrong("x = " + std::string(2000, '-') + "1\n"), HasSubstr("a statement of too many parts"));
    EXPECT_THAT(wrong("\n" + std::string(300, ' ') + "x\n"), HasSubstr("blocks that are nested too deep"));
    EXPECT_THAT(wrong("x = )\n"), HasSubstr("a bracket that was not opened"));
    EXPECT_THAT(wrong("x = \"abc\n"), HasSubstr("a text without an end"));
    EXPECT_THAT(wrong("x = \x01\n"), HasSubstr("a character that does not belong there"));
}

/// The records of a model of the test data, to be written again with changes.
class TorchScriptArchive
{
public:
    explicit TorchScriptArchive(const std::string& name)
    {
        caffe2::serialize::PyTorchStreamReader reader(HEADROOM_TEST_DATA "/models/torchscript/" + name + ".pt");
        for (const std::string& record : reader.getAllRecords()) {
            const auto [data, size] = reader.getRecord(record);
            if (!record.starts_with(".data/"))
                records[record].assign(static_cast<const char*>(data.get()), size);
        }
    }

    /// What an archive of these records is refused for; empty: it loads. `version` is the least that its format has.
    std::string error(std::uint64_t version = 3) const
    {
        std::string archive;
        caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
            archive.append(static_cast<const char*>(data), size);
            return size;
        });
        writer.setMinVersion(version);
        for (const auto& [name, content] : records)
            if (name != "version" && name != "byteorder")
                writer.writeRecord(name, content.data(), content.size());
        writer.writeEndOfFile();
        const auto file = TorchScriptFile::read(bytesOf(archive), "model.pt", nullptr);
        if (!file)
            return file.error().message;
        const auto module = file->load(true);
        return module ? "" : module.error().message;
    }

    std::map<std::string, std::string> records;
};

TEST(TorchScriptFile, LoadsAnArchiveThatWasPackedAgain)
{
    for (const char* name : {"attributes", "scripted", "traced", "several"})
        EXPECT_EQ(TorchScriptArchive(name).error(), "") << name;
}

// As torch.jit.save writes a model with gelu(): the format's version lies in .data/version from version 6 on.
TEST(TorchScriptFile, LoadsAnArchiveOfALaterVersion)
{
    for (const std::uint64_t version : {6, 9, 10})
        EXPECT_EQ(TorchScriptArchive("traced").error(version), "") << version;
}

TEST(TorchScriptFile, SaysWhichRecordIsWrong)
{
    TorchScriptArchive small("traced");
    small.records["data/1"].resize(3);
    EXPECT_THAT(small.error(), HasSubstr("model.pt: data/1 has 3 bytes, too few for a tensor of "));
    TorchScriptArchive missing("traced");
    missing.records.erase("data/1");
    EXPECT_EQ(missing.error(), "model.pt lacks the record data/1 of a tensor; the file is damaged");
    TorchScriptArchive none("traced");
    none.records.erase("data.pkl");
    EXPECT_EQ(none.error(), "model.pt is not a TorchScript file: there is no data.pkl");
    TorchScriptArchive cut("traced");
    cut.records["data.pkl"].resize(100);
    EXPECT_THAT(cut.error(), HasSubstr("model.pt: data.pkl ends too early (byte "));
    TorchScriptArchive code("scripted");
    for (auto& [name, content] : code.records)
        if (name.ends_with(".py"))
            content += "\nx = " + std::string(200, '(') + "\n";
    EXPECT_THAT(code.error(), HasSubstr(".py, line "));
    TorchScriptArchive unknown("scripted");
    for (auto& [name, content] : unknown.records)
        if (name.ends_with(".py"))
            content = "class Other(Module):\n  pass\n";
    EXPECT_THAT(unknown.error(), HasSubstr("model.pt cannot be loaded as TorchScript: "));
}

/// What is said of a model whose file has `body` in its forward, and `before` before it.
std::string withCode(const std::string& body, const std::string& defaultValue = "0")
{
    TorchScriptArchive archive("endless");
    archive.records["code/__torch__.py"] = "class Endless(Module):\n  __parameters__ = [\"weight\", ]\n"
                                           "  __buffers__ = []\n  weight : Tensor\n  training : bool\n"
                                           "  _is_full_backward_hook : Optional[bool]\n"
                                           "  def forward(self: __torch__.Endless,\n    x: Tensor,\n    n: int="
        + defaultValue + ") -> Tensor:\n    " + body + "\n    return torch.mul(x, self.weight)\n";
    return archive.error();
}

TEST(TorchScriptFile, MayUseOperatorsOnTensorsNumbersAndTextsOnly)
{
    EXPECT_EQ(withCode("y = torch.einsum(\"ij->i\", [x])"), "");
    EXPECT_EQ(withCode("y = torch.format(\"{}\", 3)"), "");
    EXPECT_EQ(withCode("print(x)"), "");
    const std::string end = " is none of the operators on tensors, numbers and texts that a model needs: ";
    for (const auto& [code, op] : std::vector<std::pair<std::string, std::string>>{
             {"torch.save(x, \"/tmp/victim\")", "aten::save"},
             {"y = torch.from_file(\"/tmp/victim\", True, 8)", "aten::from_file"},
             {"y = ops.aten.from_file(\"/tmp/victim\", True, 8)", "aten::from_file"},
             {"ops.aten._print(\"x\")", "aten::_print"},
             {"ops.prim.TimePoint()", "prim::TimePoint"},
             {"ops.prim.AddStatValue(\"a\", 1)", "prim::AddStatValue"},
             {"y = ops.profiler._record_function_enter(\"a\")", "profiler::_record_function_enter"},
             {"y = ops.quantized.linear_prepack(x)", "quantized::linear_prepack"},
         }) {
        const std::string said = withCode(code);
        EXPECT_THAT(said, testing::StartsWith("model.pt: " + op + end)) << code;
        EXPECT_EQ(said.find('\n'), std::string::npos);
    }
}

// Default values are computed while a file is loaded.
TEST(TorchScriptFile, RunsNoOtherOperatorWhileItIsLoaded)
{
    const auto victim = std::filesystem::path(testing::TempDir()) / "headroom_victim";
    std::ofstream(victim) << "kept";
    const std::string file = "torch.size(torch.from_file(\"" + victim.string() + "\", True, 64), 0)";
    EXPECT_THAT(withCode("pass", file), HasSubstr("aten::from_file is none of the operators"));
    EXPECT_EQ(std::filesystem::file_size(victim), 4U);
    std::filesystem::remove(victim);
}

TEST(TorchScriptFile, UsesNoClassOfLibtorchsOwn)
{
    for (const char* code : {"a = __torch__.torch.classes.quantized.LinearPackedParamsBase",
                             "a = __torch__ . torch . classes.cuda.Stream(0)"})
        EXPECT_THAT(withCode(code), HasSubstr("has an object of torch.classes (libtorch's own code); save "));
    for (const char* code : {"a = __torch__\n    b = a", "a = __torch__.torch\n    b = a", "a = __torch__.()"})
        EXPECT_THAT(withCode(code), HasSubstr("has the name of a class that is cut off; torch.jit.save writes"));
}

TEST(TorchScriptFile, EveryTruncationIsAnError)
{
    std::ifstream in(HEADROOM_TEST_DATA "/models/torchscript/attributes.pt", std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    const std::string whole = text.str();
    for (std::size_t size = 0; size < whole.size(); size += 7)
        EXPECT_FALSE(TorchScriptFile::read(bytesOf(whole).first(size), "model.pt", nullptr)) << size;
}

// What fuzzing has found interesting stays a test of every build.
TEST(TorchScriptFile, TheCorpusOfFuzzingIsReadOrRefused)
{
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(HEADROOM_SOURCE_DIR "/tests/fuzz/corpus/torchscript")) {
        const auto file = TorchScriptFile::open(entry.path());
        EXPECT_TRUE(file || !file.error().message.empty()) << entry.path();
        ++files;
    }
    EXPECT_GT(files, 100);
}

TEST(TorchScriptFile, OtherFilesAreToldApart)
{
    const auto errorOf = [](const std::string& path) {
        ModelRequest request;
        request.name = path;
        const auto source = openModel(request);
        return source ? "" : source.error().message;
    };
    const auto path = std::filesystem::path(testing::TempDir()) / "headroom_state.pt";
    caffe2::serialize::PyTorchStreamWriter writer(
        [file = std::make_shared<std::ofstream>(path, std::ios::binary)](const void* data, std::size_t size) {
            file->write(static_cast<const char*>(data), static_cast<std::streamsize>(size)).flush();
            return size;
        });
    writer.writeRecord("data.pkl", "\x80\x02}.", 4);
    writer.writeEndOfFile();
    EXPECT_EQ(
        errorOf(path.string()),
        path.string()
            + " was written by torch.save, and torch.save stores Python objects without code; save the model with "
              "torch.export.save or torch.jit.save, or record the training script");
    std::filesystem::remove(path);
}

} // namespace
} // namespace headroom
