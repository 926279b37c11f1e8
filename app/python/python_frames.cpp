// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/python/recording_api.h"

#include "core/device/source_frames.h"

#include <boost/container_hash/hash.hpp>

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom::python {
namespace {

/// The functions of CPython that read frames. The process has the functions already, since Python has loaded this
/// library; no header of Python is needed, so that one library serves every version.
struct PythonApi
{
    using Object = void*;

    /// PyMethodDef: a function of C++ that Python can call.
    struct Method
    {
        const char* name;
        Object (*function)(Object self, Object argument);
        int flags;
        const char* documentation;
    };
    static constexpr int oneArgument = 0x0008; ///< METH_O

    int (*isInitialized)();
    Object (*threadOfThis)(); ///< null: the thread never ran Python
    int (*takeGil)();
    void (*leaveGil)(int);
    Object (*frameOfThread)(Object thread); ///< a new reference; null: no function runs
    Object (*callerOf)(Object frame); ///< a new reference; null: the outermost frame
    Object (*codeOf)(Object frame); ///< a new reference
    int (*lineOf)(Object frame);
    int (*instructionOf)(Object frame); ///< null: older than Python 3.11
    Object (*attribute)(Object object, const char* name);
    Object (*encoded)(Object text, const char* encoding, const char* errors);
    char* (*bytesOf)(Object bytes);
    void (*hold)(Object object); ///< adds a reference
    void (*drop)(Object object);
    void (*fetchError)(Object* type, Object* value, Object* traceback);
    void (*restoreError)(Object type, Object value, Object traceback);
    Object (*functionOf)(Method* method, Object self, Object module); ///< a new reference; `method` must stay
    Object (*weakReference)(Object object, Object callback); ///< a new reference

    /// Returns the functions; null if one of them is missing.
    static const PythonApi* get()
    {
        static const PythonApi api;
        return api.isComplete_ ? &api : nullptr;
    }

private:
    PythonApi()
    {
        isComplete_ = find(isInitialized, "Py_IsInitialized") && find(threadOfThis, "PyGILState_GetThisThreadState")
            && find(takeGil, "PyGILState_Ensure") && find(leaveGil, "PyGILState_Release")
            && find(frameOfThread, "PyThreadState_GetFrame") && find(callerOf, "PyFrame_GetBack")
            && find(codeOf, "PyFrame_GetCode") && find(lineOf, "PyFrame_GetLineNumber")
            && find(attribute, "PyObject_GetAttrString") && find(encoded, "PyUnicode_AsEncodedString")
            && find(bytesOf, "PyBytes_AsString") && find(hold, "Py_IncRef") && find(drop, "Py_DecRef")
            && find(fetchError, "PyErr_Fetch") && find(restoreError, "PyErr_Restore")
            && find(functionOf, "PyCFunction_NewEx") && find(weakReference, "PyWeakref_NewRef");
        find(instructionOf, "PyFrame_GetLasti");
    }

    template <class Function>
    static bool find(Function& function, const char* name)
    {
        function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
        return function != nullptr;
    }

    bool isComplete_ = false;
};

/// A reference to a Python object, dropped at the end.
class Reference
{
public:
    Reference(const PythonApi& api, PythonApi::Object object)
        : api_(&api)
        , object_(object)
    {
    }
    Reference(Reference&& other) noexcept
        : api_(other.api_)
        , object_(std::exchange(other.object_, nullptr))
    {
    }
    Reference& operator=(Reference&& other) noexcept
    {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Reference()
    {
        if (object_)
            api_->drop(object_);
    }
    PythonApi::Object get() const { return object_; }

private:
    const PythonApi* api_;
    PythonApi::Object object_;
};

/// The GIL, while the object exists. An error that Python is about to raise stays.
class PythonScope
{
public:
    explicit PythonScope(const PythonApi& api)
        : api_(api)
        , state_(api.takeGil())
    {
        api_.fetchError(&type_, &value_, &traceback_);
    }
    ~PythonScope()
    {
        api_.restoreError(type_, value_, traceback_);
        api_.leaveGil(state_);
    }
    PythonScope(const PythonScope&) = delete;
    PythonScope& operator=(const PythonScope&) = delete;

private:
    const PythonApi& api_;
    int state_;
    PythonApi::Object type_ = nullptr, value_ = nullptr, traceback_ = nullptr;
};

/// Finds the frames of Python functions, and numbers each frame once. Callers hold the GIL.
class PythonFrames
{
public:
    PythonFrames(const PythonApi& api, std::string ownFolder)
        : api_(api)
        , ownFolder_(std::move(ownFolder))
    {
    }

    /// Returns the innermost frame of this thread.
    FrameId current()
    {
        std::vector<Running> stack = runningFunctions();
        thread_local std::vector<Known> last; // the stack of the last call in this thread, outermost frame first
        thread_local std::uint64_t deathsBefore = 0;
        if (std::exchange(deathsBefore, deaths_) != deaths_)
            last.clear();
        FrameId frame;
        std::size_t depth = 0;
        for (const Running& running : stack | std::views::reverse) {
            const CodePosition position(running.code.get(), running.instruction);
            if (depth >= last.size() || last[depth].position != position) {
                last.resize(depth);
                last.push_back({position, frameOf(frame, position, running)});
            }
            frame = last[depth++].frame;
        }
        return frame;
    }

    /// Forgets a code object that dies. Another code object may get the address.
    void forget(PythonApi::Object weakReference)
    {
        const auto dying = std::ranges::find_if(
            codes_, [&](const auto& entry) { return entry.second.weakReference.get() == weakReference; });
        if (dying == codes_.end())
            return;
        ++deaths_;
        dead_.push_back(std::move(dying->second.weakReference)); // Python still uses the reference
        codes_.erase(dying);
    }

private:
    /// A code object, and the instruction (before Python 3.11: the line) in the code that runs.
    using CodePosition = std::pair<PythonApi::Object, int>;
    struct Known
    {
        CodePosition position;
        FrameId frame;
    };
    struct Running
    {
        Reference frame;
        Reference code;
        int instruction;
    };

    std::vector<Running> runningFunctions() const
    {
        std::vector<Running> stack;
        Reference frame(api_, api_.frameOfThread(api_.threadOfThis()));
        while (frame.get()) {
            Reference caller(api_, api_.callerOf(frame.get()));
            Reference code(api_, api_.codeOf(frame.get()));
            const int instruction = (api_.instructionOf ? api_.instructionOf : api_.lineOf)(frame.get());
            stack.push_back({std::move(frame), std::move(code), instruction});
            frame = std::move(caller);
        }
        return stack;
    }

    /// Returns the number of a frame with this caller; a frame that is left out has the number of its caller.
    FrameId frameOf(FrameId caller, CodePosition position, const Running& running)
    {
        const Code& code = codeAt(running.code.get());
        const auto [entry, isNew] = numbers_.try_emplace({caller, code.number, position.second});
        if (!isNew)
            return entry->second;
        if (code.isLeftOut)
            return entry->second = caller;
        const int line = api_.lineOf(running.frame.get());
        return entry->second
            = sim::addFrame({caller, code.file, code.function, line > 0 ? static_cast<std::uint32_t>(line) : 0});
    }

    struct Code
    {
        /// The program owns code objects: the globals of compiled code, and with them tensors, live as long as the
        /// code.
        Reference weakReference;
        std::uint32_t number; ///< never given twice
        std::string file;
        std::string function;
        bool isLeftOut = false;
    };
    const Code& codeAt(PythonApi::Object object)
    {
        const auto known = codes_.find(object);
        if (known != codes_.end())
            return known->second;
        dead_.clear();
        Code code{Reference(api_, api_.weakReference(object, whenDead_.get())), nextNumber_++,
                  text(object, "co_filename"), text(object, "co_qualname")};
        if (code.function.empty()) // before Python 3.11
            code.function = text(object, "co_name");
        code.isLeftOut = code.file.starts_with("<frozen ") || code.file.starts_with(ownFolder_);
        return codes_.emplace(object, std::move(code)).first->second;
    }

    /// Returns a text among an object's attributes; empty: there is no such text.
    std::string text(PythonApi::Object object, const char* name) const
    {
        const Reference value(api_, api_.attribute(object, name));
        const Reference bytes(api_, value.get() ? api_.encoded(value.get(), "utf-8", "backslashreplace") : nullptr);
        if (bytes.get())
            return api_.bytesOf(bytes.get());
        PythonApi::Object type = nullptr, error = nullptr, traceback = nullptr;
        api_.fetchError(&type, &error, &traceback); // as AttributeError: forgotten
        for (const PythonApi::Object part : {type, error, traceback})
            const Reference dropped(api_, part);
        return {};
    }

    static PythonApi::Object onDeath(PythonApi::Object, PythonApi::Object weakReference);

    using Key = std::tuple<FrameId, std::uint32_t, int>; ///< caller, number of the code, instruction
    const PythonApi& api_;
    const std::string ownFolder_;
    PythonApi::Method method_{"forget_code", &onDeath, PythonApi::oneArgument, nullptr};
    Reference whenDead_{api_, api_.functionOf(&method_, nullptr, nullptr)};
    std::unordered_map<Key, FrameId, boost::hash<Key>> numbers_;
    std::unordered_map<PythonApi::Object, Code> codes_; ///< that live
    std::vector<Reference> dead_;
    std::uint64_t deaths_ = 0;
    std::uint32_t nextNumber_ = 0;
};

PythonFrames* frames = nullptr; ///< never deleted: threads may run until the process ends

PythonApi::Object PythonFrames::onDeath(PythonApi::Object, PythonApi::Object weakReference)
{
    frames->forget(weakReference);
    frames->api_.hold(weakReference);
    return weakReference; // any object will do
}

FrameId currentPythonFrame()
{
    const PythonApi& api = *PythonApi::get();
    if (!api.isInitialized() || !api.threadOfThis())
        return {};
    const PythonScope scope(api);
    return frames->current();
}

} // namespace
} // namespace headroom::python

void headroom_record_source_lines(const char* ownFolder)
{
    using namespace headroom::python;
    const PythonApi* const api = PythonApi::get();
    if (!api || frames)
        return;
    const PythonScope scope(*api);
    frames = new PythonFrames(*api, ownFolder);
    headroom::sim::setFrameFinder(&currentPythonFrame);
}
