// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/node_table.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <algorithm>

namespace headroom {

const NodeTable::Thread* NodeTable::find(std::uint64_t id) const
{
    const auto found = std::find_if(threads_.begin(), threads_.end(), [&](const Thread& t) { return t.id == id; });
    return found == threads_.end() ? nullptr : &*found;
}

NodeTable::Thread& NodeTable::current()
{
    const std::uint64_t id = at::RecordFunction::currentThreadId();
    if (const Thread* thread = find(id))
        return threads_[static_cast<std::size_t>(thread - threads_.data())];
    // This is a new autograd thread: the thread's last node may belong to the op that begins.
    const std::uint64_t next = at::sequence_number::peek();
    return threads_.emplace_back(Thread{id, next > 0 ? next - 1 : 0, {}});
}

void NodeTable::startThread()
{
    threads_.push_back({at::RecordFunction::currentThreadId(), at::sequence_number::peek(), {}});
}

void NodeTable::opBegins(OpId op)
{
    Thread& thread = current();
    const std::uint64_t next = at::sequence_number::peek();
    if (next > thread.next())
        thread.ops.resize(next - thread.first, op);
}

void NodeTable::forget(OpId op)
{
    std::vector<OpId>& ops = current().ops;
    for (auto last = ops.rbegin(); last != ops.rend() && *last == op; ++last)
        *last = OpId();
}

bool NodeTable::nodesWait() const
{
    const Thread* thread = find(at::RecordFunction::currentThreadId());
    return thread && at::sequence_number::peek() > thread->next();
}

OpId NodeTable::opOf(std::uint64_t thread, std::uint64_t sequence) const
{
    const Thread* found = find(thread);
    if (!found || sequence < found->first || sequence >= found->next())
        return {};
    return found->ops[sequence - found->first];
}

} // namespace headroom
