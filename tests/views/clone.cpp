// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// For ThreadSanitizer: QProcess starts its programs by clone() with CLONE_VM and CLONE_VFORK. GCC's runtime takes each
// clone() for a fork, and its record of the child is in memory that the child shares: from then on it ignores all locks
// of the thread that started the program. This clone() goes past it, to glibc's.
#include <cstdarg>

extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...);

extern "C" __attribute__((visibility("default"))) int clone(int (*function)(void*), void* stack, int flags,
                                                            void* argument, ...)
{
    va_list others;
    va_start(others, argument);
    void* const parentThread = va_arg(others, void*);
    void* const storage = va_arg(others, void*);
    void* const childThread = va_arg(others, void*);
    va_end(others);
    return __clone(function, stack, flags, argument, parentThread, storage, childThread);
}
