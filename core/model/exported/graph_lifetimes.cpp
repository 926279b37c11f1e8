// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/graph_program.h"

#include <algorithm>
#include <limits>

namespace headroom::exported {
namespace {

constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

/// The module calls of a program, and the call of each instruction.
struct Calls
{
    struct Call
    {
        std::size_t parent = nowhere;
        std::size_t enter = 0;
        std::size_t exit = 0;
        std::size_t depth = 0;
    };
    std::vector<Call> calls; ///< the root's first
    std::vector<std::size_t> at; ///< by instruction

    explicit Calls(const GraphProgram& program);
    std::size_t common(std::size_t a, std::size_t b) const;
};

Calls::Calls(const GraphProgram& program)
{
    std::size_t open = nowhere;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const auto& action = program.instructions[i].action;
        if (std::holds_alternative<EnterModule>(action)) {
            calls.push_back({open, i, i, open == nowhere ? 0 : calls[open].depth + 1});
            open = calls.size() - 1;
        }
        at.push_back(open);
        if (std::holds_alternative<ExitModule>(action)) {
            calls[open].exit = i;
            open = calls[open].parent;
        }
    }
}

std::size_t Calls::common(std::size_t a, std::size_t b) const
{
    while (a != b)
        (calls[a].depth >= calls[b].depth ? a : b) = calls[calls[a].depth >= calls[b].depth ? a : b].parent;
    return a;
}

template <class Visit>
void visitUses(const Instruction& instruction, Visit visit)
{
    const auto visitOperands = [&](const std::vector<Operand>& operands) {
        for (const Operand& operand : operands)
            for (const Operand::Element& element : operand.elements)
                if (element.slot.valid())
                    visit(element.slot);
    };
    if (const auto* call = std::get_if<CallOperator>(&instruction.action))
        visitOperands(call->operands);
    else if (const auto* compute = std::get_if<Compute>(&instruction.action))
        visitOperands(compute->operands);
}

template <class Visit>
void visitDefinitions(const Instruction& instruction, Visit visit)
{
    if (const auto* call = std::get_if<CallOperator>(&instruction.action)) {
        for (const std::vector<Slot>& slots : call->results)
            for (const Slot slot : slots)
                if (slot.valid())
                    visit(slot);
    } else if (const auto* compute = std::get_if<Compute>(&instruction.action); compute && compute->result.valid()) {
        visit(compute->result);
    }
}

class Lives
{
public:
    Lives(GraphProgram& program, Lifetimes lifetimes)
        : program_(program)
        , lifetimes_(lifetimes)
        , calls_(program)
        , lives_(program.slots)
    {
    }
    void find();
    void write();

private:
    struct Life
    {
        std::size_t made = nowhere; ///< instruction; nowhere: an input of the graph
        std::size_t lastUse = 0;
        std::size_t holder = nowhere; ///< innermost call around its definition and all uses; its frame holds the value
        bool returned = false;
        bool weight = false; ///< a tensor of the file, not an argument of modules
    };
    void use(Slot slot, std::size_t instruction);
    void give(Slot slot, std::size_t made, std::size_t used);

    GraphProgram& program_;
    Lifetimes lifetimes_;
    Calls calls_;
    std::vector<Life> lives_;
};

/// Adds a value to the arguments of calls around `used` that began after `made`, and to the results of calls around
/// `made` that ended before `used`.
void Lives::give(Slot slot, std::size_t made, std::size_t used)
{
    const auto add = [slot](std::vector<Slot>& slots) {
        if (std::ranges::find(slots, slot) == slots.end())
            slots.push_back(slot);
    };
    const std::size_t maker = made == nowhere ? 0 : calls_.at[made];
    const std::size_t shared = made == nowhere ? nowhere : calls_.common(maker, calls_.at[used]);
    for (std::size_t call = calls_.at[used]; call != shared && call != nowhere; call = calls_.calls[call].parent)
        add(std::get<EnterModule>(program_.instructions[calls_.calls[call].enter].action).arguments);
    for (std::size_t call = maker; made != nowhere && call != shared; call = calls_.calls[call].parent)
        add(std::get<ExitModule>(program_.instructions[calls_.calls[call].exit].action).results);
}

void Lives::use(Slot slot, std::size_t instruction)
{
    Life& life = lives_[slot.value];
    life.lastUse = std::max(life.lastUse, instruction);
    if (life.made != nowhere)
        life.holder = calls_.common(life.holder, calls_.at[instruction]);
    if (!life.weight)
        give(slot, life.made, instruction);
}

void Lives::find()
{
    for (const GraphProgram::Input& input : program_.inputs)
        if (input.slot.valid())
            lives_[input.slot.value].weight = !input.given;
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
        visitUses(program_.instructions[i], [&](Slot slot) { use(slot, i); });
        visitDefinitions(program_.instructions[i], [&](Slot slot) {
            lives_[slot.value].made = lives_[slot.value].lastUse = i;
            lives_[slot.value].holder = calls_.at[i];
        });
    }
    const std::size_t end = program_.instructions.size() - 1;
    for (const GraphProgram::Mutation& mutation : program_.mutations)
        if (mutation.value.valid())
            lives_[mutation.value.value].returned = true;
    for (const Slot slot : program_.results) {
        use(slot, end);
        lives_[slot.value].returned = true;
        auto& results = std::get<ExitModule>(program_.instructions[end].action).results;
        if (std::ranges::find(results, slot) == results.end())
            results.push_back(slot);
    }
}

void Lives::write()
{
    for (const Calls::Call& call : calls_.calls) {
        auto& enter = std::get<EnterModule>(program_.instructions[call.enter].action);
        enter.begin = call.enter;
        enter.end = call.exit;
    }
    for (std::uint32_t slot = 0; slot < lives_.size(); ++slot) {
        const Life& life = lives_[slot];
        if (life.made == nowhere || life.returned)
            continue;
        const std::size_t end = lifetimes_ == Lifetimes::graph ? life.lastUse : calls_.calls[life.holder].exit;
        program_.instructions[end].dying.push_back(Slot(slot));
    }
}

} // namespace

void addLifetimes(GraphProgram& program, Lifetimes lifetimes)
{
    Lives lives(program, lifetimes);
    lives.find();
    lives.write();
}

} // namespace headroom::exported
