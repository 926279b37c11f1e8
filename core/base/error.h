// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace headroom {

/// Why an operation failed. The values are the exit codes of the programs.
enum class ErrorKind {
    internal = 1, ///< a defect of Headroom
    badInput = 2, ///< bad usage or bad input: the message says what is wrong, where, and what was expected
    infeasible = 3, ///< no plan fits the budget
    noDevice = 4, ///< the requested device is not there
};

/// A failed operation; `message` is a sentence for the user, without a trailing newline.
struct Error
{
    ErrorKind kind = ErrorKind::internal;
    std::string message;
};

inline Error badInput(std::string message)
{
    return {ErrorKind::badInput, std::move(message)};
}

/// Either a value or an Error: the part of C++23's std::expected that Headroom needs.
template <class T>
class [[nodiscard]] Result
{
public:
    Result(T value)
        : content_(std::in_place_index<0>, std::move(value))
    {
    }
    Result(Error error)
        : content_(std::in_place_index<1>, std::move(error))
    {
    }

    bool ok() const noexcept { return content_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    /// The value; call only when ok().
    T& value() & { return *std::get_if<0>(&content_); }
    const T& value() const& { return *std::get_if<0>(&content_); }
    T&& value() && { return std::move(*std::get_if<0>(&content_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    /// The error; call only when not ok().
    const Error& error() const { return *std::get_if<1>(&content_); }

private:
    std::variant<T, Error> content_;
};

/// Success without a value, or an Error.
class [[nodiscard]] Status
{
public:
    Status() = default;
    Status(Error error)
        : error_(std::move(error))
        , failed_(true)
    {
    }
    bool ok() const noexcept { return !failed_; }
    explicit operator bool() const noexcept { return ok(); }
    const Error& error() const { return error_; }

private:
    Error error_;
    bool failed_ = false;
};

} // namespace headroom
