// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/pickle.h"

#include <c10/util/safe_numerics.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace headroom {
namespace {

using Index = Pickle::Index;
using Kind = Pickle::Kind;
using Value = Pickle::Value;

constexpr std::uint32_t deepest = 256; ///< values inside values; a model's modules are nested some ten deep
constexpr std::uint64_t mostVisits = 1U << 28; ///< of values, by one that follows every reference
constexpr std::size_t longestType = 4096;

struct StorageType
{
    std::string_view name;
    at::ScalarType dtype;
};
constexpr std::array storageTypes{
    StorageType{"torch.FloatStorage", at::kFloat},
    StorageType{"torch.DoubleStorage", at::kDouble},
    StorageType{"torch.HalfStorage", at::kHalf},
    StorageType{"torch.BFloat16Storage", at::kBFloat16},
    StorageType{"torch.LongStorage", at::kLong},
    StorageType{"torch.IntStorage", at::kInt},
    StorageType{"torch.ShortStorage", at::kShort},
    StorageType{"torch.CharStorage", at::kChar},
    StorageType{"torch.ByteStorage", at::kByte},
    StorageType{"torch.BoolStorage", at::kBool},
    StorageType{"torch.ComplexFloatStorage", at::kComplexFloat},
    StorageType{"torch.ComplexDoubleStorage", at::kComplexDouble},
};

const StorageType* storageType(std::string_view name)
{
    const auto found = std::ranges::find(storageTypes, name, &StorageType::name);
    return found == storageTypes.end() ? nullptr : &*found;
}

/// A class that the file's own code defines.
bool isClass(std::string_view name)
{
    return name.starts_with("__torch__") && !name.starts_with("__torch__.torch.classes.");
}

/// A function that makes a list of one type from a tuple of one list.
std::optional<Kind> listElement(std::string_view name)
{
    constexpr std::array<std::pair<std::string_view, Kind>, 4> makers{{
        {"torch.jit._pickle.build_intlist", Kind::integer},
        {"torch.jit._pickle.build_doublelist", Kind::real},
        {"torch.jit._pickle.build_boollist", Kind::boolean},
        {"torch.jit._pickle.build_tensorlist", Kind::tensor},
    }};
    const auto found = std::ranges::find(makers, name, &std::pair<std::string_view, Kind>::first);
    return found == makers.end() ? std::nullopt : std::optional(found->second);
}

constexpr std::string_view rebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view restoreTypeTag = "torch.jit._pickle.restore_type_tag";
constexpr std::string_view orderedDict = "collections.OrderedDict";
constexpr std::string_view device = "torch.device";
constexpr std::string_view complexNumber = "builtins.complex";

bool isKnown(std::string_view name)
{
    constexpr std::array others{rebuildTensor, restoreTypeTag, orderedDict, device, complexNumber};
    return isClass(name) || storageType(name) || listElement(name) || std::ranges::find(others, name) != others.end();
}

/// A type as TorchScript prints it: "Dict[str, List[int]]".
bool isType(std::string_view text)
{
    int depth = 0;
    for (const char c : text) {
        depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
        const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
            || std::string_view("_., []()").find(c) != std::string_view::npos;
        if (!allowed || depth < 0 || depth > 32)
            return false;
    }
    return depth == 0 && !text.empty() && text.size() <= longestType;
}

/// No element of the tensor lies outside of its storage.
bool fits(const Pickle::Tensor& tensor)
{
    if (tensor.sizes.size() != tensor.strides.size() || tensor.offset < 0 || tensor.storageElements < 0)
        return false;
    std::uint64_t last = static_cast<std::uint64_t>(tensor.offset);
    std::uint64_t elements = 1;
    bool overflow = false;
    for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
        if (tensor.sizes[i] < 0 || tensor.strides[i] < 0)
            return false;
        const auto size = static_cast<std::uint64_t>(tensor.sizes[i]);
        std::uint64_t step = 0;
        overflow |= c10::mul_overflows(elements, size, &elements);
        overflow |= size > 0 && c10::mul_overflows(size - 1, static_cast<std::uint64_t>(tensor.strides[i]), &step);
        overflow |= c10::add_overflows(last, step, &last);
    }
    if (overflow || elements >> 60 != 0)
        return false;
    return elements == 0 || last < static_cast<std::uint64_t>(tensor.storageElements);
}

/// What is wrong, without the place.
struct Wrong
{
    std::string what;
};

} // namespace

/// The stack machine. It throws Wrong, which read() makes an Error of.
class PickleReader
{
public:
    explicit PickleReader(std::span<const std::byte> bytes)
        : bytes_(bytes)
    {
    }
    void run();
    std::size_t position() const { return position_; }
    Pickle take() { return std::move(pickle_); }

private:
    enum class Opcode : unsigned char {
        mark = '(',
        stop = '.',
        binInt = 'J',
        binInt1 = 'K',
        binInt2 = 'M',
        none = 'N',
        persistentId = 'Q',
        reduce = 'R',
        binUnicode = 'X',
        append = 'a',
        build = 'b',
        global = 'c',
        emptyDict = '}',
        appends = 'e',
        binGet = 'h',
        longBinGet = 'j',
        emptyList = ']',
        binPut = 'q',
        longBinPut = 'r',
        setItem = 's',
        tuple = 't',
        emptyTuple = ')',
        setItems = 'u',
        binFloat = 'G',
        protocol = 0x80,
        newObject = 0x81,
        tuple1 = 0x85,
        tuple2 = 0x86,
        tuple3 = 0x87,
        newTrue = 0x88,
        newFalse = 0x89,
        long1 = 0x8a,
    };
    /// What a value holds, all the way down.
    struct Extent
    {
        std::uint32_t depth = 1;
        std::uint64_t visits = 1; ///< values met by one that follows every reference
        bool inside = false; ///< of another value: it may not change any more
    };

    void execute(Opcode opcode);
    void executeData(Opcode opcode);

    template <class Number>
    Number number();
    std::string_view text(std::size_t size);
    std::string line();

    void push(Value value);
    void pushInteger(std::int64_t integer) { push({Kind::integer, integer, {}, {}}); }
    void pushTuple(std::size_t count);
    Index pop();
    std::vector<Index> popToMark();
    Value& at(Index index) { return pickle_.values_[index]; }
    void adopt(Index owner, std::span<const Index> items); ///< puts values into another one
    Index container(Kind kind); ///< the one on top of the stack, of this kind and still open

    void put(std::size_t index);
    void get(std::size_t index);
    void global();
    void setItems(const std::vector<Index>& items);
    void reduce();
    void makeObject();
    void build();
    void storage();
    void tensor(const Value& arguments);
    void typedList(Kind element, const Value& arguments);
    void typeTag(const Value& arguments);
    std::vector<std::int64_t> integers(Index tuple);

    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;
    Pickle pickle_;
    std::vector<Extent> extents_; ///< of each value
    std::vector<Index> stack_;
    std::vector<std::size_t> marks_; ///< heights of the stack
    std::vector<Index> memo_;
    bool stopped_ = false;
};

void PickleReader::run()
{
    if (bytes_.size() >= UINT32_MAX)
        throw Wrong{"is larger than 4 GiB"};
    if (number<std::uint8_t>() != static_cast<std::uint8_t>(Opcode::protocol) || number<std::uint8_t>() != 2)
        throw Wrong{"does not begin as a pickle of protocol 2"};
    while (!stopped_)
        execute(static_cast<Opcode>(number<std::uint8_t>()));
    if (stack_.size() != 1 || !marks_.empty())
        throw Wrong{"ends with more than one value"};
    if (at(stack_.front()).kind == Kind::function || at(stack_.front()).kind == Kind::storage)
        throw Wrong{"is no value"};
    pickle_.root_ = stack_.front();
}

void PickleReader::execute(Opcode opcode)
{
    switch (opcode) {
    case Opcode::stop:
        stopped_ = true;
        break;
    case Opcode::mark:
        marks_.push_back(stack_.size());
        break;
    case Opcode::append: {
        const Index item = pop();
        adopt(container(Kind::list), {&item, 1});
        break;
    }
    case Opcode::appends: {
        const std::vector<Index> items = popToMark();
        adopt(container(Kind::list), items);
        break;
    }
    case Opcode::setItem: {
        const Index item = pop();
        setItems({pop(), item});
        break;
    }
    case Opcode::setItems:
        setItems(popToMark());
        break;
    case Opcode::tuple: {
        const std::vector<Index> items = popToMark();
        push({Kind::tuple, 0, {}, {}});
        adopt(stack_.back(), items);
        break;
    }
    case Opcode::binPut:
        put(number<std::uint8_t>());
        break;
    case Opcode::longBinPut:
        put(number<std::uint32_t>());
        break;
    case Opcode::binGet:
        get(number<std::uint8_t>());
        break;
    case Opcode::longBinGet:
        get(number<std::uint32_t>());
        break;
    case Opcode::global:
        global();
        break;
    case Opcode::reduce:
        reduce();
        break;
    case Opcode::newObject:
        makeObject();
        break;
    case Opcode::build:
        build();
        break;
    case Opcode::persistentId:
        storage();
        break;
    default:
        executeData(opcode);
    }
}

/// Opcodes that push a value of their own.
void PickleReader::executeData(Opcode opcode)
{
    switch (opcode) {
    case Opcode::none:
        push({});
        break;
    case Opcode::newTrue:
    case Opcode::newFalse:
        push({Kind::boolean, opcode == Opcode::newTrue, {}, {}});
        break;
    case Opcode::binInt:
        pushInteger(number<std::int32_t>());
        break;
    case Opcode::binInt1:
        pushInteger(number<std::uint8_t>());
        break;
    case Opcode::binInt2:
        pushInteger(number<std::uint16_t>());
        break;
    case Opcode::long1:
        if (number<std::uint8_t>() != sizeof(std::int64_t))
            throw Wrong{"holds an integer of another size than 8 bytes"};
        pushInteger(number<std::int64_t>());
        break;
    case Opcode::binFloat:
        text(sizeof(double));
        push({Kind::real, 0, {}, {}});
        break;
    case Opcode::binUnicode: {
        const auto size = number<std::uint32_t>();
        push({Kind::text, 0, std::string(text(size)), {}});
        break;
    }
    case Opcode::emptyList:
        push({Kind::list, 0, {}, {}});
        break;
    case Opcode::emptyTuple:
        push({Kind::tuple, 0, {}, {}});
        break;
    case Opcode::emptyDict:
        push({Kind::dictionary, 0, {}, {}});
        break;
    case Opcode::tuple1:
        pushTuple(1);
        break;
    case Opcode::tuple2:
        pushTuple(2);
        break;
    case Opcode::tuple3:
        pushTuple(3);
        break;
    default:
        throw Wrong{"holds opcode " + std::to_string(static_cast<int>(opcode))
                    + ", which torch.jit.save does not write"};
    }
}

template <class Number>
Number PickleReader::number()
{
    Number value = 0;
    std::memcpy(&value, text(sizeof(Number)).data(), sizeof(Number));
    return value;
}

std::string_view PickleReader::text(std::size_t size)
{
    if (size > bytes_.size() - position_)
        throw Wrong{"ends too early"};
    const std::string_view found(reinterpret_cast<const char*>(bytes_.data()) + position_, size);
    position_ += size;
    return found;
}

std::string PickleReader::line()
{
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + position_, bytes_.size() - position_);
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos || end > longestType)
        throw Wrong{"holds a name without an end"};
    position_ += end + 1;
    return std::string(rest.substr(0, end));
}

void PickleReader::push(Value value)
{
    stack_.push_back(static_cast<Index>(pickle_.values_.size()));
    pickle_.values_.push_back(std::move(value));
    extents_.emplace_back();
}

void PickleReader::pushTuple(std::size_t count)
{
    std::vector<Index> items(count);
    for (std::size_t i = count; i > 0; --i)
        items[i - 1] = pop();
    push({Kind::tuple, 0, {}, {}});
    adopt(stack_.back(), items);
}

Index PickleReader::pop()
{
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
        throw Wrong{"takes a value that is not there"};
    const Index index = stack_.back();
    stack_.pop_back();
    return index;
}

std::vector<Index> PickleReader::popToMark()
{
    if (marks_.empty())
        throw Wrong{"ends a group that has no beginning"};
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
}

void PickleReader::adopt(Index owner, std::span<const Index> items)
{
    Extent& extent = extents_[owner];
    for (const Index item : items) {
        const bool inTuple = at(owner).kind == Kind::tuple;
        if (item == owner || (at(item).kind == Kind::function && !inTuple)
            || (at(item).kind == Kind::storage && !inTuple))
            throw Wrong{"holds a value where it cannot be"};
        extents_[item].inside = true;
        extent.depth = std::max(extent.depth, extents_[item].depth + 1);
        extent.visits = std::min(extent.visits + extents_[item].visits, mostVisits + 1);
        at(owner).items.push_back(item);
    }
    if (extent.depth > deepest || extent.visits > mostVisits)
        throw Wrong{"holds values that are nested too deep"};
}

Index PickleReader::container(Kind kind)
{
    const Index top = pop();
    stack_.push_back(top);
    if (at(top).kind != kind || extents_[top].inside)
        throw Wrong{"adds to something that is no open list or dictionary"};
    return top;
}

void PickleReader::put(std::size_t index)
{
    // libtorch's table grows to whatever index stands there; its own pickler counts.
    if (index != memo_.size())
        throw Wrong{"remembers values out of order"};
    const Index top = pop();
    stack_.push_back(top);
    memo_.push_back(top);
}

void PickleReader::get(std::size_t index)
{
    if (index >= memo_.size())
        throw Wrong{"refers to a value that is not there"};
    stack_.push_back(memo_[index]);
}

void PickleReader::global()
{
    const std::string module = line();
    std::string name = module + "." + line();
    if (!isKnown(name))
        throw Wrong{"uses " + name + ", which Headroom does not read in a TorchScript file"};
    push({Kind::function, 0, std::move(name), {}});
}

void PickleReader::setItems(const std::vector<Index>& items)
{
    const Index dictionary = container(Kind::dictionary);
    if (items.size() % 2 != 0)
        throw Wrong{"holds a dictionary's key without a value"};
    for (std::size_t i = 0; i < items.size(); i += 2) {
        const Kind key = at(items[i]).kind;
        if (key != Kind::text && key != Kind::integer && key != Kind::real && key != Kind::boolean)
            throw Wrong{"holds a dictionary with a key that is no text and no number"};
    }
    adopt(dictionary, items);
}

void PickleReader::reduce()
{
    const Index argumentsIndex = pop();
    const Index functionIndex = pop();
    const std::string name = at(functionIndex).text;
    const Value arguments = at(argumentsIndex);
    if (at(functionIndex).kind != Kind::function || arguments.kind != Kind::tuple)
        throw Wrong{"calls something that cannot be called"};
    const auto argument = [&](std::size_t index) { return at(arguments.items[index]).kind; };
    if (name == rebuildTensor) {
        tensor(arguments);
    } else if (name == restoreTypeTag) {
        typeTag(arguments);
    } else if (const auto element = listElement(name)) {
        typedList(*element, arguments);
    } else if (name == orderedDict && arguments.items.empty()) {
        push({Kind::dictionary, 0, {}, {}});
    } else if (name == device && arguments.items.size() == 1 && argument(0) == Kind::text) {
        push({Kind::device, 0, at(arguments.items[0]).text, {}});
    } else if (name == complexNumber && arguments.items.size() == 2 && argument(0) == Kind::real
               && argument(1) == Kind::real) {
        push({Kind::complex, 0, {}, {}});
    } else {
        throw Wrong{"calls " + name + " with arguments that torch.jit.save does not write"};
    }
}

void PickleReader::makeObject()
{
    const Index arguments = pop();
    const Index type = pop();
    if (at(type).kind != Kind::function || !isClass(at(type).text) || at(arguments).kind != Kind::tuple
        || !at(arguments).items.empty())
        throw Wrong{"makes an object of something that is no class"};
    push({Kind::object, 0, at(type).text, {}});
}

void PickleReader::build()
{
    const Index state = pop();
    const Index object = container(Kind::object);
    if (!at(object).items.empty())
        throw Wrong{"gives an object its state twice"};
    adopt(object, {&state, 1});
}

/// ('storage', torch.FloatStorage, 'record', 'cpu', elements)
void PickleReader::storage()
{
    const Index index = pop();
    const std::vector<Index> parts = at(index).items;
    const std::array kinds{Kind::text, Kind::function, Kind::text, Kind::text, Kind::integer};
    bool asExpected = at(index).kind == Kind::tuple && parts.size() == kinds.size();
    for (std::size_t i = 0; asExpected && i < kinds.size(); ++i)
        asExpected = at(parts[i]).kind == kinds[i];
    if (!asExpected || at(parts[0]).text != "storage" || at(parts[4]).integer < 0)
        throw Wrong{"refers to a storage in a way that torch.jit.save does not write"};
    const StorageType* type = storageType(at(parts[1]).text);
    if (!type)
        throw Wrong{"holds a storage of the unknown type " + at(parts[1]).text};
    Value value{Kind::storage, at(parts[4]).integer, at(parts[2]).text, {}};
    value.items = {parts[1]};
    push(std::move(value));
}

/// (storage, offset, sizes, strides, requires_grad, hooks)
void PickleReader::tensor(const Value& arguments)
{
    const std::vector<Index>& parts = arguments.items;
    const std::array kinds{Kind::storage, Kind::integer, Kind::tuple, Kind::tuple, Kind::boolean, Kind::dictionary};
    bool asExpected = parts.size() == kinds.size();
    for (std::size_t i = 0; asExpected && i < kinds.size(); ++i)
        asExpected = at(parts[i]).kind == kinds[i];
    if (!asExpected || !at(parts[5]).items.empty())
        throw Wrong{"rebuilds a tensor in a way that torch.jit.save does not write"};
    const Value& storage = at(parts[0]);
    Pickle::Tensor tensor;
    tensor.dtype = storageType(at(storage.items[0]).text)->dtype;
    tensor.storage = storage.text;
    tensor.storageElements = storage.integer;
    tensor.offset = at(parts[1]).integer;
    tensor.sizes = integers(parts[2]);
    tensor.strides = integers(parts[3]);
    tensor.requiresGrad = at(parts[4]).integer != 0;
    if (!fits(tensor))
        throw Wrong{"holds a tensor that is larger than its storage"};
    if (tensor.requiresGrad && !at::isFloatingType(tensor.dtype) && !at::isComplexType(tensor.dtype))
        throw Wrong{"holds a tensor of integers that requires a gradient"};
    push({Kind::tensor, static_cast<std::int64_t>(pickle_.tensors_.size()), {}, {}});
    pickle_.tensors_.push_back(std::move(tensor));
}

void PickleReader::typedList(Kind element, const Value& arguments)
{
    if (arguments.items.size() != 1 || at(arguments.items[0]).kind != Kind::list)
        throw Wrong{"makes a list of something that is none"};
    const Index list = arguments.items[0];
    for (const Index item : at(list).items)
        if (at(item).kind != element)
            throw Wrong{"makes a list of values of another type"};
    stack_.push_back(list);
}

void PickleReader::typeTag(const Value& arguments)
{
    const std::vector<Index>& parts = arguments.items;
    if (parts.size() != 2 || at(parts[1]).kind != Kind::text || !isType(at(parts[1]).text))
        throw Wrong{"holds a type that TorchScript does not know"};
    const Kind kind = at(parts[0]).kind;
    if (kind != Kind::list && kind != Kind::dictionary)
        throw Wrong{"gives a type to something that is no list and no dictionary"};
    stack_.push_back(parts[0]);
}

std::vector<std::int64_t> PickleReader::integers(Index tuple)
{
    std::vector<std::int64_t> numbers;
    for (const Index item : at(tuple).items) {
        if (at(item).kind != Kind::integer)
            throw Wrong{"holds a tensor whose shape is not made of integers"};
        numbers.push_back(at(item).integer);
    }
    if (numbers.size() > 64)
        throw Wrong{"holds a tensor of more than 64 dimensions"};
    return numbers;
}

Result<Pickle> Pickle::read(std::span<const std::byte> bytes, const std::string& name)
{
    PickleReader reader(bytes);
    try {
        reader.run();
    } catch (const Wrong& wrong) {
        return badInput(name + " " + wrong.what + " (byte " + std::to_string(reader.position())
                        + "); the file is damaged, or not one that torch.jit.save wrote");
    }
    return reader.take();
}

const Pickle::Value* Pickle::find(const Value& dictionary, std::string_view key) const
{
    if (dictionary.kind != Kind::dictionary)
        return nullptr;
    for (std::size_t i = 0; i + 1 < dictionary.items.size(); i += 2)
        if (values_[dictionary.items[i]].kind == Kind::text && values_[dictionary.items[i]].text == key)
            return &values_[dictionary.items[i + 1]];
    return nullptr;
}

} // namespace headroom
