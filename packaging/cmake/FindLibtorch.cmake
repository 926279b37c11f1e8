# Finds libtorch inside a Python wheel (CPU or CUDA) and defines Libtorch::torch_cpu.
#
# Looked for in this order: HEADROOM_TORCH_DIR (variable or environment: the folder `torch` of site-packages), the active
# Python environment, the environment that packaging/run.sh makes under the build folder.
# PyTorch's own find_package(Torch) is not used: with the CUDA wheel it enables the CUDA language and fails without a
# toolkit. Only libtorch_cpu and libc10 are linked; what they need of CUDA resolves through their own RPATH.
set(HEADROOM_TORCH_DIR "$ENV{HEADROOM_TORCH_DIR}" CACHE PATH "Folder `torch` of a site-packages that holds torch")
# packaging/python/check_torch.sh builds and tests any of these versions.
set(_torch_list "${PROJECT_SOURCE_DIR}/packaging/dependencies/torch-versions.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_torch_list}")
foreach(_which oldest newest)
    file(STRINGS "${_torch_list}" _torch_line REGEX "^${_which} ")
    string(REPLACE "${_which} " "" _torch_${_which} "${_torch_line}")
endforeach()
# The version in a folder `torch`, or nothing.
function(_libtorch_version folder result)
    set(version "")
    if(EXISTS "${folder}/version.py")
        file(STRINGS "${folder}/version.py" line REGEX "^__version__")
        string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${line}")
    endif()
    set(${result} "${version}" PARENT_SCOPE)
endfunction()
# Whether a version is one of ours, counting all of the newest's patches.
function(_libtorch_is_known version result)
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${version}")
    set(known FALSE)
    if(minor VERSION_GREATER_EQUAL _torch_oldest AND minor VERSION_LESS_EQUAL _torch_newest)
        set(known TRUE)
    endif()
    set(${result} ${known} PARENT_SCOPE)
endfunction()

set(_torch_dir "${HEADROOM_TORCH_DIR}")
if(NOT _torch_dir)
    # An environment with another torch is passed over: the one of the training code may be older or newer than ours.
    set(_pythons "$ENV{VIRTUAL_ENV}/bin/python3" "${PROJECT_SOURCE_DIR}/build/torch-env/bin/python3" python3)
    if(SKBUILD)
        set(_pythons "${Python_EXECUTABLE}") # pip installs into this one
        # Building in isolation, pip hides by PYTHONPATH what is installed there.
        set(_environment "${CMAKE_COMMAND}" -E env --unset=PYTHONPATH)
    endif()
    foreach(_python ${_pythons})
        execute_process(COMMAND ${_environment} "${_python}" -c
            "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
            OUTPUT_VARIABLE _candidate OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _torch_result)
        _libtorch_version("${_candidate}" _candidate_version)
        _libtorch_is_known("${_candidate_version}" _candidate_known)
        if(_torch_result EQUAL 0 AND _candidate_known)
            set(_torch_dir "${_candidate}")
            break()
        endif()
    endforeach()
endif()
_libtorch_version("${_torch_dir}" Libtorch_VERSION)
set(Libtorch_SUPPORTED "torch ${_torch_oldest} to ${_torch_newest}")
set(_torch_advice "set HEADROOM_TORCH_DIR to the folder `torch` of a site-packages with ${Libtorch_SUPPORTED}, or run packaging/run.sh, which installs it")
if(SKBUILD)
    set(_torch_advice "this Python has none of ${Libtorch_SUPPORTED}: install torch into it first")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch REQUIRED_VARS _torch_dir VERSION_VAR Libtorch_VERSION
    REASON_FAILURE_MESSAGE "${_torch_advice}")
_libtorch_is_known("${Libtorch_VERSION}" _torch_known)
if(Libtorch_FOUND AND NOT _torch_known)
    message(FATAL_ERROR "Headroom is written against ${Libtorch_SUPPORTED}; ${_torch_dir} holds ${Libtorch_VERSION}")
endif()
if(Libtorch_FOUND AND NOT TARGET Libtorch::torch_cpu)
    add_library(Libtorch::torch_cpu INTERFACE IMPORTED)
    target_include_directories(Libtorch::torch_cpu SYSTEM INTERFACE
        "${_torch_dir}/include" "${_torch_dir}/include/torch/csrc/api/include")
    # libtorch's headers include those of the ops that they need, not all of them: a fifth less memory and time.
    target_compile_definitions(Libtorch::torch_cpu INTERFACE AT_PER_OPERATOR_HEADERS)
    target_link_libraries(Libtorch::torch_cpu INTERFACE "${_torch_dir}/lib/libtorch_cpu.so" "${_torch_dir}/lib/libc10.so")
    target_link_options(Libtorch::torch_cpu INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath,${_torch_dir}/lib")
endif()
# The allocator of CUDA's half, only in the CUDA build.
if(Libtorch_FOUND AND EXISTS "${_torch_dir}/lib/libc10_cuda.so" AND NOT TARGET Libtorch::c10_cuda)
    add_library(Libtorch::c10_cuda INTERFACE IMPORTED)
    target_link_libraries(Libtorch::c10_cuda INTERFACE "${_torch_dir}/lib/libc10_cuda.so")
endif()
set(Libtorch_PYTHON_PACKAGES "${_torch_dir}/.." CACHE INTERNAL "site-packages that holds torch")
