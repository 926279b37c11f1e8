// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/torchscript_file.h"

#include "core/base/mapped_file.h"
#include "core/base/try.h"
#include "core/model/model_operators.h"
#include "core/model/zip_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <pthread.h>
#include <system_error>
#include <utility>
#include <vector>

namespace headroom {
namespace {

constexpr std::size_t stackSize = std::size_t(1) << 30; // address space; only used pages take memory
constexpr std::size_t deepestBrackets = 100;
constexpr std::size_t deepestIndent = 256; // columns
constexpr std::size_t mostTokens = 1000; // tokens between two commas or brackets, each of which may add a level
constexpr std::size_t mostBranches = 1000; // number of elif, each of which adds a level
constexpr std::size_t mostClasses = 50'000; // each may be the type of an attribute of the class before it

bool isWordCharacter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Scans code for constructs that nest.
class CodeCheck
{
public:
    explicit CodeCheck(std::string_view code)
        : code_(code)
    {
    }
    /// Returns the fault; empty: none.
    std::string run()
    {
        while (position_ < code_.size() && wrong_.empty())
            step();
        return wrong_;
    }
    std::size_t line() const { return line_; }
    const std::string& advice() const { return advice_; } ///< the end of the sentence about the fault

private:
    void step();
    void newLine();
    void word();
    void className(std::size_t position);
    void literal(char quote);
    void token()
    {
        if (++tokens_.back() > mostTokens)
            wrong_ = "a statement of too many parts";
    }

    std::string_view code_;
    std::size_t position_ = 0;
    std::size_t line_ = 1;
    std::vector<std::size_t> tokens_{0}; ///< number of tokens outside of brackets, and in each open bracket
    std::size_t branches_ = 0;
    std::size_t classes_ = 0;
    std::string wrong_;
    std::string advice_ = "; torch.jit.save writes no such code";
};

void CodeCheck::step()
{
    const char c = code_[position_];
    if (isWordCharacter(c)) {
        word();
        return;
    }
    ++position_;
    switch (c) {
    case '\n':
        newLine();
        break;
    case ' ':
        break;
    case '"':
    case '\'':
        literal(c);
        break;
    case '#':
        while (position_ < code_.size() && code_[position_] != '\n')
            ++position_;
        break;
    case ',':
        tokens_.back() = 0;
        break;
    case '(':
    case '[':
    case '{':
        token();
        tokens_.push_back(0);
        if (tokens_.size() > deepestBrackets)
            wrong_ = "brackets that are nested too deep";
        break;
    case ')':
    case ']':
    case '}':
        if (tokens_.size() == 1)
            wrong_ = "a bracket that was not opened";
        else
            tokens_.pop_back();
        break;
    default:
        if (c < ' ' || c > '~')
            wrong_ = "a character that does not belong there";
        token();
    }
}

void CodeCheck::newLine()
{
    ++line_;
    if (tokens_.size() == 1)
        tokens_.back() = 0;
    const std::size_t text = std::min(code_.find_first_not_of(' ', position_), code_.size());
    if (text - position_ > deepestIndent)
        wrong_ = "blocks that are nested too deep";
}

void CodeCheck::word()
{
    const std::size_t begin = position_;
    while (position_ < code_.size() && isWordCharacter(code_[position_]))
        ++position_;
    const std::string_view word = code_.substr(begin, position_ - begin);
    if (word == "__torch__")
        className(position_);
    branches_ += word == "elif" ? 1 : 0;
    classes_ += word == "class" ? 1 : 0;
    if (branches_ > mostBranches || classes_ > mostClasses)
        wrong_ = "too many classes or branches";
    token();
}

/// Checks the name behind `__torch__`: those of torch.classes are libtorch's own, which run code of their own.
void CodeCheck::className(std::size_t position)
{
    const auto next = [&]() -> std::string_view {
        const std::size_t dot = std::min(code_.find_first_not_of(" \n", position), code_.size());
        const std::size_t begin = std::min(code_.find_first_not_of(" \n", dot + 1), code_.size());
        position = begin;
        while (position < code_.size() && isWordCharacter(code_[position]))
            ++position;
        return dot < code_.size() && code_[dot] == '.' ? code_.substr(begin, position - begin) : std::string_view();
    };
    const std::string_view first = next();
    const std::string_view second = first == "torch" ? next() : first;
    if (second.empty())
        wrong_ = "the name of a class that is cut off";
    else if (first == "torch" && second == "classes") {
        wrong_ = "an object of torch.classes (libtorch's own code)";
        advice_ = "; save the model before quantization or preparation for a backend";
    }
}

void CodeCheck::literal(char quote)
{
    const std::array<char, 3> three{quote, quote, quote};
    const std::string_view longQuote(three.data(), three.size());
    const bool isLong = code_.substr(position_ - 1).starts_with(longQuote);
    const std::string_view end = isLong ? longQuote : longQuote.substr(0, 1);
    position_ += end.size() - 1;
    while (position_ < code_.size() && !code_.substr(position_).starts_with(end)) {
        line_ += code_[position_] == '\n' ? 1 : 0;
        position_ += code_[position_] == '\\' ? 2 : 1;
    }
    if (position_ >= code_.size())
        wrong_ = "a text without an end";
    position_ += end.size();
    token();
}

void* runIt(void* work)
{
    (*static_cast<const std::function<void()>*>(work))();
    return nullptr;
}

} // namespace

Status checkTorchScriptCode(std::string_view code, const std::string& name)
{
    CodeCheck check(code);
    const std::string wrong = check.run();
    if (wrong.empty())
        return {};
    return badInput(name + ", line " + std::to_string(check.line()) + ", has " + wrong + check.advice());
}

Status runOnLargeStack(const std::function<void()>& work)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stackSize);
    pthread_t thread{};
    const int code = pthread_create(&thread, &attributes, runIt, const_cast<std::function<void()>*>(&work));
    pthread_attr_destroy(&attributes);
    if (code != 0)
        return Error{ErrorKind::internal, "no thread for loading the model: " + std::generic_category().message(code)};
    pthread_join(thread, nullptr);
    return {};
}

namespace {

using ByteSpan = std::span<const std::byte>;

constexpr std::size_t largestText = std::size_t(256) << 20; ///< limit in bytes of an unpacked pickle or code

} // namespace

namespace {

/// Reads a frame of a trace's stack, "models/gpt.py(31): forward"; nullopt: another text.
std::optional<TorchScriptLines::Line> tracedLine(std::string_view text)
{
    const std::size_t end = text.rfind("): ");
    const std::size_t begin = text.rfind('(', end);
    if (end == std::string_view::npos || begin == std::string_view::npos)
        return std::nullopt;
    TorchScriptLines::Line line{std::string(text.substr(0, begin)), std::string(text.substr(end + 3)), 0};
    const char* const last = text.data() + end;
    const auto [rest, error] = std::from_chars(text.data() + begin + 1, last, line.line);
    return error == std::errc() && rest == last ? std::optional(std::move(line)) : std::nullopt;
}

bool isSequence(const Pickle::Value& value)
{
    return value.type == Pickle::Type::list || value.type == Pickle::Type::tuple;
}

/// Reads the items of a list or tuple with `size` items or, if `size` is 0, with any number.
std::vector<const Pickle::Value*> itemsOf(const Pickle& pickle, const Pickle::Value& value, std::size_t size = 0)
{
    std::vector<const Pickle::Value*> items;
    if (isSequence(value) && (size == 0 || value.items.size() == size))
        for (const Pickle::Index item : value.items)
            items.push_back(&pickle.value(item));
    return items;
}

} // namespace

void TorchScriptLines::add(const std::string& codeFile, Pickle record)
{
    const auto parts = itemsOf(record, record.root(), 3);
    if (parts.empty() || parts[0]->text != "FORMAT_WITH_STRING_TABLE" || !isSequence(*parts[1])
        || !isSequence(*parts[2]))
        return;
    std::int64_t last = 0;
    for (const Pickle::Value* entry : itemsOf(record, *parts[2])) {
        const auto fields = itemsOf(record, *entry, 3); // offset, (source, begin, end), tag
        if (fields.empty() || fields[0]->type != Pickle::Type::integer || fields[0]->integer < last)
            return;
        last = fields[0]->integer;
    }
    records_.emplace(codeFile, std::move(record));
}

std::vector<TorchScriptLines::Line> TorchScriptLines::at(const std::string& codeFile, std::size_t offset) const
{
    const auto found = records_.find(codeFile);
    if (found == records_.end())
        return {};
    const Pickle& record = found->second;
    const auto parts = itemsOf(record, record.root());
    const std::vector<Pickle::Index>& texts = parts[1]->items;
    const std::vector<Pickle::Index>& entries = parts[2]->items;
    const auto offsetOf = [&](Pickle::Index entry) { return record.value(record.value(entry).items[0]).integer; };
    const auto behind = std::ranges::upper_bound(entries, static_cast<std::int64_t>(offset), {}, offsetOf);
    if (behind == entries.begin())
        return {};
    const auto range = itemsOf(record, record.value(record.value(*std::prev(behind)).items[1]), 3);
    const auto source = range.empty() ? range : itemsOf(record, *range[0], 3); // texts, file, first line
    const auto textAt = [&](std::int64_t index) -> std::string_view {
        return index >= 0 && std::cmp_less(index, texts.size())
            ? std::string_view(record.value(texts[static_cast<std::size_t>(index)]).text)
            : std::string_view();
    };
    if (source.empty() || textAt(source[1]->integer).empty())
        return {};
    std::vector<Line> stack;
    std::string whole;
    bool isTrace = true;
    for (const Pickle::Value* index : itemsOf(record, *source[0])) {
        std::string_view text = textAt(index->integer);
        whole += text;
        text = text.substr(0, text.find('\n'));
        std::optional<Line> line = tracedLine(text);
        isTrace = isTrace && (line || text.empty());
        if (line)
            stack.insert(stack.begin(), *std::move(line)); // the record has the innermost first
    }
    if (isTrace && !stack.empty())
        return stack;
    const std::string_view before = std::string_view(whole).substr(0, static_cast<std::size_t>(range[1]->integer));
    return {{std::string(textAt(source[1]->integer)),
             {},
             static_cast<std::uint32_t>(source[2]->integer + std::ranges::count(before, '\n'))}};
}

/// Checks the records of an archive. Exceptions of libtorch's archive reader pass through.
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
            return badInput(file_.name_ + " is not a TorchScript file: there is no " + needed);
    RETURN_IF_ERROR(checkSizes());
    RETURN_IF_ERROR(checkCode());
    for (const auto& [record, folder] : {std::pair("data.pkl", "data/"), std::pair("constants.pkl", "constants/")}) {
        ASSIGN_OR_RETURN(const auto values, pickle(record));
        RETURN_IF_ERROR(checkStorages(values, folder));
    }
    if (reader_.hasRecord("traced_inputs.pkl")) {
        ASSIGN_OR_RETURN(file_.tracedInputs_, pickle("traced_inputs.pkl"));
    }
    constexpr std::string_view debug = ".debug_pkl";
    for (const std::string& record : records_)
        if (record.starts_with("code/") && record.ends_with(debug))
            if (Result<Pickle> lines = pickle(record)) // a damaged one is as good as none
                file_.lines_.add(record.substr(0, record.size() - debug.size()), *std::move(lines));
    return {};
}

/// Checks that no record states more bytes than the file can hold.
Status TorchScriptCheck::checkSizes()
{
    for (const std::string& record : records_) {
        const std::size_t size = reader_.getRecordSize(record);
        const bool isWeight = record.starts_with("data/") || record.starts_with("constants/");
        if (size > std::max(isWeight ? std::size_t(0) : largestText, file_.bytes_.size()))
            return badInput(place(record) + " claims " + std::to_string(size)
                            + " bytes, more than the file can hold; the file is damaged");
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
            return badInput(file_.name_ + " lacks the record " + record + " of a tensor; the file is damaged");
        ASSIGN_OR_RETURN(const auto bytes, archive_.record(record));
        if (elements > bytes.size() / elementSize)
            return badInput(place(record) + " has " + std::to_string(bytes.size()) + " bytes, too few for a tensor of "
                            + std::to_string(elements) + " elements; the file is damaged");
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
            withholdOperators(); // some code, such as default values of arguments, runs during loading
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
