// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/torchscript_file.h"

#include "core/base/mapped_file.h"
#include "core/base/try.h"
#include "core/model/model_operators.h"
#include "core/model/torchscript_code.h"
#include "core/model/zip_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>

namespace headroom {
namespace {

using ByteSpan = std::span<const std::byte>;

constexpr std::size_t largestText = std::size_t(256) << 20; ///< limit in bytes of an unpacked pickle or code

} // namespace

/// Checks the records of an archive. It lets through the exceptions of libtorch's archive reader.
class TorchScriptCheck
{
public:
    TorchScriptCheck(TorchScriptFile& file, const ZipArchive& archive)
        : file_(file)
        , archive_(archive)
        , reader_(archive.reader())
    {
    }
    Status run();

private:
    Status checkSizes();
    Status checkCode();
    Status checkStorages(const Pickle& pickle, const std::string& folder);
    Result<Pickle> pickle(const std::string& record);
    std::string place(const std::string& record) const { return file_.name_ + ": " + record; }

    TorchScriptFile& file_;
    const ZipArchive& archive_;
    caffe2::serialize::PyTorchStreamReader& reader_;
    std::vector<std::string> records_;
};

Status TorchScriptCheck::run()
{
    records_ = reader_.getAllRecords();
    // Files of format version 6 and later, such as those of models with gelu(), have their version in .data.
    const char* const version = reader_.hasRecord(".data/version") ? ".data/version" : "version";
    for (const char* needed : {"data.pkl", "constants.pkl", version})
        if (!reader_.hasRecord(needed))
            return badInput(file_.name_ + " is not a TorchScript file: it has no " + needed);
    RETURN_IF_ERROR(checkSizes());
    RETURN_IF_ERROR(checkCode());
    for (const auto& [record, folder] : {std::pair("data.pkl", "data/"), std::pair("constants.pkl", "constants/")}) {
        ASSIGN_OR_RETURN(const auto values, pickle(record));
        RETURN_IF_ERROR(checkStorages(values, folder));
    }
    if (reader_.hasRecord("traced_inputs.pkl")) {
        ASSIGN_OR_RETURN(file_.tracedInputs_, pickle("traced_inputs.pkl"));
    }
    return {};
}

/// Checks that no record states more bytes than the file can hold.
Status TorchScriptCheck::checkSizes()
{
    for (const std::string& record : records_) {
        const std::size_t size = reader_.getRecordSize(record);
        const bool isWeight = record.starts_with("data/") || record.starts_with("constants/");
        if (size > std::max(isWeight ? std::size_t(0) : largestText, file_.bytes_.size()))
            return badInput(place(record) + " says that it has " + std::to_string(size)
                            + " bytes, which is more than the file can hold; the file is damaged");
    }
    return {};
}

Status TorchScriptCheck::checkCode()
{
    std::size_t total = 0;
    for (const std::string& record : records_) {
        if (!record.starts_with("code/") || !record.ends_with(".py"))
            continue;
        total += reader_.getRecordSize(record);
        if (total > largestText)
            return badInput(file_.name_ + " holds more code than Headroom reads: over "
                            + std::to_string(largestText >> 20) + " MiB");
        const auto [data, size] = reader_.getRecord(record);
        const std::string_view code(static_cast<const char*>(data.get()), size);
        RETURN_IF_ERROR(checkTorchScriptCode(code, place(record)));
    }
    return {};
}

/// Checks that every storage is an uncompressed record that is large enough.
Status TorchScriptCheck::checkStorages(const Pickle& pickle, const std::string& folder)
{
    for (const Pickle::Tensor& tensor : pickle.tensors()) {
        const std::string record = folder + tensor.storage;
        const std::size_t elementSize = c10::elementSize(tensor.dtype);
        const auto elements = static_cast<std::uint64_t>(tensor.storageElements);
        if (elements == 0)
            continue;
        if (!reader_.hasRecord(record))
            return badInput(file_.name_ + " has no record " + record + ", which a tensor lies in; the file is damaged");
        ASSIGN_OR_RETURN(const auto bytes, archive_.record(record));
        if (elements > bytes.size() / elementSize)
            return badInput(place(record) + " has " + std::to_string(bytes.size()) + " bytes, but a tensor of "
                            + std::to_string(elements) + " elements lies in it; the file is damaged");
        if (elements * elementSize > TorchScriptFile::smallStorage)
            file_.weights_.push_back(bytes);
    }
    return {};
}

Result<Pickle> TorchScriptCheck::pickle(const std::string& record)
{
    const auto [data, size] = reader_.getRecord(record);
    return Pickle::read({static_cast<const std::byte*>(data.get()), size}, place(record));
}

Result<TorchScriptFile> TorchScriptFile::open(const std::filesystem::path& path)
{
    ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
    Result<TorchScriptFile> made = read(file->bytes(), path.string(), file);
    RETURN_IF_ERROR(file->unchanged());
    return made;
}

Result<TorchScriptFile> TorchScriptFile::read(ByteSpan bytes, std::string name, std::shared_ptr<const void> memory)
{
    ASSIGN_OR_RETURN(const auto archive, ZipArchive::read(bytes, name, memory));
    TorchScriptFile file;
    file.name_ = std::move(name);
    file.bytes_ = bytes;
    file.memory_ = std::move(memory);
    try {
        RETURN_IF_ERROR(TorchScriptCheck(file, archive).run());
    } catch (const std::exception& error) {
        return badInput(file.name_ + " is not a TorchScript file: " + firstSentence(error));
    }
    return file;
}

Result<torch::jit::Module> TorchScriptFile::load(bool weights) const
{
    const auto bytes = std::make_shared<MappedBytes>(bytes_, weights ? std::vector<ByteSpan>() : weights_);
    std::optional<torch::jit::Module> module;
    std::string problem;
    const Status run = runOnLargeStack([&] {
        try {
            withholdOperators(); // some code, such as default values of arguments, runs while it is loaded
            module = torch::jit::load(bytes, at::kCPU, /*load_debug_files=*/false);
        } catch (const std::exception& error) {
            problem = firstSentence(error);
        }
    });
    if (!run)
        return run.error();
    if (const std::string refused = withheldOperator(problem); !refused.empty())
        return badInput(name_ + ": " + refused + " " + refusedOperator);
    if (!module)
        return badInput(name_ + " cannot be loaded as TorchScript: " + problem);
    return *std::move(module);
}

} // namespace headroom
