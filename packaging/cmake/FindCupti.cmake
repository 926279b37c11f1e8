# Finds the headers of CUDA's runtime and of CUPTI and defines Cupti::headers. The libraries are not linked: libtorch
# brings the runtime, CUPTI is looked for when a program runs. CUDA's wheels beside torch have the headers, as a toolkit.
find_path(CUPTI_INCLUDE_DIR cupti.h HINTS "${Libtorch_PYTHON_PACKAGES}/nvidia/cu13/include"
    PATHS "$ENV{CUDA_HOME}/include" /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include)
find_path(CUDA_RUNTIME_INCLUDE_DIR cuda_runtime_api.h HINTS "${Libtorch_PYTHON_PACKAGES}/nvidia/cu13/include"
    PATHS "$ENV{CUDA_HOME}/include" /usr/local/cuda/include)
# The runtime's own headers include these, which are a wheel of their own (nvidia-cuda-crt).
find_path(CUDA_CRT_INCLUDE_DIR crt/host_defines.h HINTS "${Libtorch_PYTHON_PACKAGES}/nvidia/cu13/include"
    PATHS "$ENV{CUDA_HOME}/include" /usr/local/cuda/include)
set(_cupti_version "")
if(CUPTI_INCLUDE_DIR)
    file(STRINGS "${CUPTI_INCLUDE_DIR}/cupti_version.h" _cupti_line REGEX "^#define CUPTI_API_VERSION")
    string(REGEX MATCH "[0-9]+" _cupti_version "${_cupti_line}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cupti REQUIRED_VARS CUPTI_INCLUDE_DIR CUDA_RUNTIME_INCLUDE_DIR
    CUDA_CRT_INCLUDE_DIR VERSION_VAR _cupti_version)
if(Cupti_FOUND AND _cupti_version GREATER_EQUAL 130000 AND NOT TARGET Cupti::headers)
    add_library(Cupti::headers INTERFACE IMPORTED)
    target_include_directories(Cupti::headers SYSTEM INTERFACE "${CUPTI_INCLUDE_DIR}" "${CUDA_RUNTIME_INCLUDE_DIR}"
        "${CUDA_CRT_INCLUDE_DIR}")
endif()
mark_as_advanced(CUPTI_INCLUDE_DIR CUDA_RUNTIME_INCLUDE_DIR CUDA_CRT_INCLUDE_DIR)
