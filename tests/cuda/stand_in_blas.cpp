// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
//
// cuBLAS for the GPU that is not there: the real one has a runtime of its own inside, which finds no driver. Not its
// own header's declarations, which come with another package: a handle is here a stream, and of a product's arguments
// only the handle counts.
#include "tests/cuda/stand_in.h"

extern "C" {

int cublasCreate_v2(void** handle)
{
    *handle = new void*(nullptr);
    return 0;
}
int cublasDestroy_v2(void*)
{
    return 0;
}
int cublasSetStream_v2(void* handle, void* stream)
{
    *static_cast<void**>(handle) = stream;
    return 0;
}
int cublasSetWorkspace_v2(void*, void*, std::size_t)
{
    return 0;
}
int cublasSetMathMode(void*, int)
{
    return 0;
}
int cublasGetMathMode(void*, int* mode)
{
    *mode = 0;
    return 0;
}
int cublasSetPointerMode_v2(void*, int)
{
    return 0;
}
int cublasGetPointerMode_v2(void*, int* mode)
{
    *mode = 0;
    return 0;
}
/// The result is as the caller made it: zeros.
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*, int* found)
{
    *found = 1;
    return 0;
}
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                   void*, void*, const void*, void*, std::size_t, void* stream)
{
    standin::product(stream, "cublasLtMatmul");
    return 0;
}

#define HEADROOM_PRODUCT(function)                                                                                     \
    int function(void* handle)                                                                                         \
    {                                                                                                                  \
        standin::product(*static_cast<void**>(handle), #function);                                                     \
        return 0;                                                                                                      \
    }
HEADROOM_PRODUCT(cublasSgemm_v2)
HEADROOM_PRODUCT(cublasSgemmEx)
HEADROOM_PRODUCT(cublasSgemmStridedBatched)
HEADROOM_PRODUCT(cublasSgemv_v2)
HEADROOM_PRODUCT(cublasSdot_v2)
HEADROOM_PRODUCT(cublasDotEx)
HEADROOM_PRODUCT(cublasDgemm_v2)
HEADROOM_PRODUCT(cublasDgemmStridedBatched)
HEADROOM_PRODUCT(cublasDgemv_v2)
HEADROOM_PRODUCT(cublasGemmEx)
HEADROOM_PRODUCT(cublasGemmStridedBatchedEx)

} // extern "C"
