// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/pickle.h"

#include <c10/util/safe_numerics.h>

#include <algorithm>
#include <array>
#include <optional>

namespace headroom {
namespace {

constexpr std::uint32_t mostDepth = 256; ///< levels of nested values; a model has about ten
constexpr std::uint64_t mostVisits = 1U << 28; ///< values that a reader meets by following every reference

} // namespace

Pickle PickleReader::read()
{
    if (input().size() >= UINT32_MAX)
        throw WrongPickle{"is larger than 4 GiB"};
    run();
    if (at(root()).type == Type::function || at(root()).type == Type::storage)
        throw WrongPickle{"is no value"};
    pickle_.root_ = root();
    return std::move(pickle_);
}

void PickleReader::other(PickleOpcode opcode)
{
    switch (opcode) {
    case PickleOpcode::global:
        return push(global());
    case PickleOpcode::reduce:
        return push(reduce());
    case PickleOpcode::newObject:
        return push(makeObject());
    case PickleOpcode::build:
        return push(build());
    case PickleOpcode::persistentId:
        return push(storage());
    default:
        throw WrongPickle{"holds opcode " + std::to_string(static_cast<int>(opcode))
                          + ", never written by torch.jit.save"};
    }
}

Pickle::Index PickleReader::make(Value value)
{
    pickle_.values_.push_back(std::move(value));
    extents_.emplace_back();
    return static_cast<Index>(pickle_.values_.size() - 1);
}

Pickle::Index PickleReader::tuple(Items items)
{
    const Index made = make({Type::tuple, 0, {}, {}});
    adopt(made, items);
    return made;
}

void PickleReader::adopt(Index owner, Items items)
{
    Extent& extent = extents_[owner];
    for (const Index item : items) {
        const bool inTuple = at(owner).type == Type::tuple;
        if (item == owner || (at(item).type == Type::function && !inTuple)
            || (at(item).type == Type::storage && !inTuple))
            throw WrongPickle{"holds a value in a wrong place"};
        extents_[item].inside = true;
        extent.depth = std::max(extent.depth, extents_[item].depth + 1);
        extent.visits = std::min(extent.visits + extents_[item].visits, mostVisits + 1);
        at(owner).items.push_back(item);
    }
    if (extent.depth > mostDepth || extent.visits > mostVisits)
        throw WrongPickle{"holds values that are nested too deep"};
}

Pickle::Index PickleReader::open(Index container, Type type)
{
    if (at(container).type != type || extents_[container].inside)
        throw WrongPickle{"adds to something that is no open list or dictionary"};
    return container;
}

void PickleReader::setItems(Index dictionary, Items items)
{
    for (std::size_t i = 0; i < items.size(); i += 2) {
        const Type key = at(items[i]).type;
        if (key != Type::text && key != Type::integer && key != Type::real && key != Type::boolean)
            throw WrongPickle{"holds a dictionary with a key that is no text and no number"};
    }
    adopt(open(dictionary, Type::dictionary), items);
}

Result<Pickle> Pickle::read(std::span<const std::byte> bytes, const std::string& name)
{
    PickleReader reader(bytes);
    try {
        return reader.read();
    } catch (const WrongPickle& wrong) {
        return badInput(name + " " + wrong.what + " (byte " + std::to_string(reader.position())
                        + "); the file is damaged, or was not written by torch.jit.save");
    }
}

const Pickle::Value* Pickle::find(const Value& dictionary, std::string_view key) const
{
    if (dictionary.type != Type::dictionary)
        return nullptr;
    for (std::size_t i = 0; i + 1 < dictionary.items.size(); i += 2)
        if (values_[dictionary.items[i]].type == Type::text && values_[dictionary.items[i]].text == key)
            return &values_[dictionary.items[i + 1]];
    return nullptr;
}

namespace {

using Type = Pickle::Type;
using Value = Pickle::Value;

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

/// Whether the name is that of a class in the file's own code.
bool isClass(std::string_view name)
{
    return name.starts_with("__torch__") && !name.starts_with("__torch__.torch.classes.");
}

/// Returns the element type of a function that makes a typed list from a list; nullopt for other functions.
std::optional<Type> listElement(std::string_view name)
{
    constexpr std::array<std::pair<std::string_view, Type>, 4> makers{{
        {"torch.jit._pickle.build_intlist", Type::integer},
        {"torch.jit._pickle.build_doublelist", Type::real},
        {"torch.jit._pickle.build_boollist", Type::boolean},
        {"torch.jit._pickle.build_tensorlist", Type::tensor},
    }};
    const auto found = std::ranges::find(makers, name, &std::pair<std::string_view, Type>::first);
    return found == makers.end() ? std::nullopt : std::optional(found->second);
}

constexpr std::string_view rebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view restoreTypeTag = "torch.jit._pickle.restore_type_tag";
constexpr std::string_view orderedDict = "collections.OrderedDict";
constexpr std::string_view deviceClass = "torch.device";
constexpr std::string_view complexNumber = "builtins.complex";

bool isKnown(std::string_view name)
{
    constexpr std::array others{rebuildTensor, restoreTypeTag, orderedDict, deviceClass, complexNumber};
    return isClass(name) || storageType(name) || listElement(name) || std::ranges::find(others, name) != others.end();
}

/// Whether the text is a type, printed as by TorchScript: "Dict[str, List[int]]".
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
    return depth == 0 && !text.empty() && text.size() <= PickleReader::longestName;
}

/// Whether every element of the tensor lies inside the storage.
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

} // namespace

Pickle::Index PickleReader::global()
{
    const std::string module = std::string(input().line(longestName));
    std::string name = module + "." + std::string(input().line(longestName));
    if (!isKnown(name))
        throw WrongPickle{"uses " + name + ", and Headroom reads no such class in a TorchScript file"};
    return make({Type::function, 0, std::move(name), {}});
}

Pickle::Index PickleReader::reduce()
{
    const Index argumentsIndex = pop();
    const Index functionIndex = pop();
    const std::string name = at(functionIndex).text;
    const Value arguments = at(argumentsIndex);
    if (at(functionIndex).type != Type::function || arguments.type != Type::tuple)
        throw WrongPickle{"calls something that cannot be called"};
    const auto argument = [&](std::size_t index) { return at(arguments.items[index]).type; };
    if (name == rebuildTensor)
        return tensor(arguments);
    if (name == restoreTypeTag)
        return typeTag(arguments);
    if (const auto element = listElement(name))
        return typedList(*element, arguments);
    if (name == orderedDict && arguments.items.empty())
        return dictionary();
    if (name == deviceClass && arguments.items.size() == 1 && argument(0) == Type::text)
        return make({Type::device, 0, at(arguments.items[0]).text, {}});
    if (name == complexNumber && arguments.items.size() == 2 && argument(0) == Type::real && argument(1) == Type::real)
        return make({Type::complex, 0, {}, {}});
    throw WrongPickle{"calls " + name + " with arguments that torch.jit.save does not write"};
}

Pickle::Index PickleReader::makeObject()
{
    const Index arguments = pop();
    const Index type = pop();
    if (at(type).type != Type::function || !isClass(at(type).text) || at(arguments).type != Type::tuple
        || !at(arguments).items.empty())
        throw WrongPickle{"makes an object of something that is no class"};
    return make({Type::object, 0, at(type).text, {}});
}

Pickle::Index PickleReader::build()
{
    const Index state = pop();
    const Index object = open(pop(), Type::object);
    if (!at(object).items.empty())
        throw WrongPickle{"gives an object state twice"};
    adopt(object, {&state, 1});
    return object;
}

/// Reads ('storage', torch.FloatStorage, 'record', 'cpu', elements).
Pickle::Index PickleReader::storage()
{
    const Index index = pop();
    const std::vector<Index> parts = at(index).items;
    const std::array types{Type::text, Type::function, Type::text, Type::text, Type::integer};
    if (at(index).type != Type::tuple || !haveTypes(parts, types) || at(parts[0]).text != "storage"
        || at(parts[4]).integer < 0)
        throw WrongPickle{"refers to a storage in a way that torch.jit.save does not write"};
    const StorageType* type = storageType(at(parts[1]).text);
    if (!type)
        throw WrongPickle{"holds a storage of the unknown type " + at(parts[1]).text};
    Value value{Type::storage, at(parts[4]).integer, at(parts[2]).text, {}};
    value.items = {parts[1]};
    return make(std::move(value));
}

/// Reads (storage, offset, sizes, strides, requires_grad, hooks).
Pickle::Index PickleReader::tensor(const Value& arguments)
{
    const std::vector<Index>& parts = arguments.items;
    const std::array types{Type::storage, Type::integer, Type::tuple, Type::tuple, Type::boolean, Type::dictionary};
    if (!haveTypes(parts, types) || !at(parts[5]).items.empty())
        throw WrongPickle{"rebuilds a tensor in a way that torch.jit.save does not write"};
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
        throw WrongPickle{"holds a tensor that is larger than the storage"};
    if (tensor.requiresGrad && !at::isFloatingType(tensor.dtype) && !at::isComplexType(tensor.dtype))
        throw WrongPickle{"holds a tensor of integers that requires a gradient"};
    pickle_.tensors_.push_back(std::move(tensor));
    return make({Type::tensor, static_cast<std::int64_t>(pickle_.tensors_.size()) - 1, {}, {}});
}

Pickle::Index PickleReader::typedList(Type element, const Value& arguments)
{
    if (arguments.items.size() != 1 || at(arguments.items[0]).type != Type::list)
        throw WrongPickle{"makes a list of something that is none"};
    const Index list = arguments.items[0];
    for (const Index item : at(list).items)
        if (at(item).type != element)
            throw WrongPickle{"makes a list of values of another type"};
    extents_[list].inside = true; // libtorch copies the list here
    return list;
}

Pickle::Index PickleReader::typeTag(const Value& arguments)
{
    const std::vector<Index>& parts = arguments.items;
    if (parts.size() != 2 || at(parts[1]).type != Type::text || !isType(at(parts[1]).text))
        throw WrongPickle{"holds a type that TorchScript does not know"};
    const Type type = at(parts[0]).type;
    if (type != Type::list && type != Type::dictionary)
        throw WrongPickle{"gives a type to something that is no list and no dictionary"};
    extents_[parts[0]].inside = true;
    return parts[0];
}

bool PickleReader::haveTypes(const std::vector<Index>& values, std::span<const Type> types) const
{
    return std::ranges::equal(values, types, {}, [this](Index value) { return pickle_.value(value).type; });
}

std::vector<std::int64_t> PickleReader::integers(Index tuple)
{
    std::vector<std::int64_t> numbers;
    for (const Index item : at(tuple).items) {
        if (at(item).type != Type::integer)
            throw WrongPickle{"holds a tensor with a shape that is not made of integers"};
        numbers.push_back(at(item).integer);
    }
    if (numbers.size() > 64)
        throw WrongPickle{"holds a tensor of more than 64 dimensions"};
    return numbers;
}

} // namespace headroom
