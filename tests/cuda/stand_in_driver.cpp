// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
//
// libcuda.so.1 for the GPU that is not there: the functions that PyTorch links, of which it calls a few.

// Not the header's declarations: what is not called takes no arguments.
extern "C" {
int cuDevicePrimaryCtxGetState(int, unsigned int* flags, int* active)
{
    *flags = 0;
    *active = 1;
    return 0;
}
int cuGetErrorString(int, const char** text)
{
    *text = "an error of the stand-in";
    return 0;
}
int cuCtxGetCurrent(void** context)
{
    static char one;
    *context = &one;
    return 0;
}
#define HEADROOM_NOTHING(function)                                                                                     \
    int function()                                                                                                     \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
HEADROOM_NOTHING(cuCtxSetCurrent)
HEADROOM_NOTHING(cuDeviceGet)
HEADROOM_NOTHING(cuDeviceGetAttribute)
HEADROOM_NOTHING(cuDevicePrimaryCtxRetain)
HEADROOM_NOTHING(cuFuncGetAttribute)
HEADROOM_NOTHING(cuFuncSetAttribute)
HEADROOM_NOTHING(cuFuncSetCacheConfig)
HEADROOM_NOTHING(cuLaunchCooperativeKernel)
HEADROOM_NOTHING(cuLaunchKernel)
HEADROOM_NOTHING(cuLinkAddData_v2)
HEADROOM_NOTHING(cuLinkComplete)
HEADROOM_NOTHING(cuLinkCreate_v2)
HEADROOM_NOTHING(cuModuleGetFunction)
HEADROOM_NOTHING(cuModuleLoad)
HEADROOM_NOTHING(cuModuleLoadData)
HEADROOM_NOTHING(cuModuleLoadDataEx)
HEADROOM_NOTHING(cuModuleUnload)
HEADROOM_NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
HEADROOM_NOTHING(cuPointerGetAttribute)
HEADROOM_NOTHING(cuTensorMapEncodeTiled)
} // extern "C"
