# What every target of Headroom shares: language level, warnings, sanitizers, compiler cache, linker.
include_guard()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # ccache needs these settings for precompiled headers.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${CCACHE_PROGRAM}")
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
    add_link_options(-fuse-ld=mold)
endif()
if(HEADROOM_SANITIZE)
    # g++ 12 takes std::regex for uninitialized when its accesses are checked.
    add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
                        -Wno-maybe-uninitialized)
    add_link_options(-fsanitize=address,undefined)
endif()
if(HEADROOM_SANITIZE_THREADS)
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
    add_link_options(-fsanitize=thread)
endif()
if(HEADROOM_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "HEADROOM_FUZZ needs Clang: add -DCMAKE_CXX_COMPILER=clang++")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=address,undefined)
endif()

# headroom_target(NAME): the common compile settings for one of our own targets.
function(headroom_target name)
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        target_compile_options(${name} PRIVATE -Wno-restrict) # false alarms on std::string + (GCC bug 105651)
    endif()
    if(HEADROOM_WERROR)
        target_compile_options(${name} PRIVATE -Werror)
    endif()
endfunction()

# headroom_together(NAME COUNT): compiles COUNT files of a target at a time, because reading the headers takes longer than
# the files themselves. The names in their unnamed namespaces must differ.
function(headroom_together name count)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>) # all files are included
endfunction()

# headroom_together_files(NAME GROUP COUNT FILES...): does the same for some files of a target; the others are compiled
# one by one.
function(headroom_together_files name group count)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set(sources ${ARGN})
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    set(place 0)
    foreach(source IN LISTS sources)
        math(EXPR number "${place} / ${count}")
        math(EXPR place "${place} + 1")
        set_source_files_properties(${source} TARGET_DIRECTORY ${name} PROPERTIES UNITY_GROUP ${group}_${number})
    endforeach()
endfunction()

# headroom_alone(NAME FILES...): compiles files of such a target one by one. Their headers are so large that the compiler
# would need more than 1 GB of memory for them together with others.
function(headroom_alone name)
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${name} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Headers that most files of a kind include, and that take longer to read than the files themselves. Together with those of
# tests they stay below 1 GB of the compiler's memory.
set(headroom_torch_headers <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h>)
# -fpch-preprocess is for ccache. Of precompiled headers GCC forgets which are the system's, and warns of them (std::string
# + in bug 105651).
set(headroom_precompile_options
    "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>")
# Not <QtWidgets/QtWidgets>, which takes twice the memory to compile (1 GB) and a tenth longer in each file.
set(headroom_qt_headers <QAbstractItemModel> <QAction> <QApplication> <QBoxLayout> <QDir> <QFileInfo> <QHash> <QLabel>
    <QLineEdit> <QMenu> <QMouseEvent> <QPainter> <QPainterPath> <QPointer> <QPushButton> <QTimer> <QToolButton>
    <QTreeView> <QWidget>)

set(headroom_tests_headers <gmock/gmock.h> <gtest/gtest.h>)
set(headroom_qt_tests_headers <QSignalSpy> <QTemporaryDir> <QTest>)

# headroom_precompile(NAME KIND...): reads the headers of the kinds (torch, qt, tests, qt_tests) once for all files of the target.
function(headroom_precompile name)
    set(headers <algorithm> <functional> <map> <memory> <optional> <string> <unordered_map> <vector>)
    foreach(kind ${ARGN})
        list(APPEND headers ${headroom_${kind}_headers})
    endforeach()
    target_precompile_headers(${name} PRIVATE ${headers})
    target_compile_options(${name} PRIVATE ${headroom_precompile_options})
endfunction()

# headroom_test_headers(NAME LIBRARIES libs... KINDS kinds...): what tests precompile once for all of them, which
# headroom_use_test_headers(TEST NAME) takes.
function(headroom_test_headers name)
    cmake_parse_arguments(arg "" "" "LIBRARIES;KINDS" ${ARGN})
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp" "")
    add_library(${name} OBJECT "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
    headroom_target(${name})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
    # Compiled as what takes them: programs.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIE ${headroom_test_options})
    headroom_precompile(${name} ${arg_KINDS})
endfunction()
function(headroom_use_test_headers test name)
    if(TARGET ${name})
        target_precompile_headers(${test} REUSE_FROM ${name})
        target_compile_options(${test} PRIVATE ${headroom_precompile_options})
    endif()
endfunction()

# headroom_qt_target(NAME): the same for a target that uses Qt.
function(headroom_qt_target name)
    headroom_target(${name})
    set_target_properties(${name} PROPERTIES AUTOMOC ON AUTORCC ON)
    # moc looks again after each configuration: sources are listed in the rooms, whose CMakeLists.txt AUTOMOC does not
    # watch, so that a new class in one would stay without its moc file.
    file(REMOVE "${CMAKE_CURRENT_BINARY_DIR}/${name}_autogen/timestamp")
    target_compile_definitions(${name} PRIVATE QT_NO_KEYWORDS QT_NO_CAST_FROM_ASCII QT_NO_CAST_TO_ASCII
        QT_NO_URL_CAST_FROM_STRING QT_USE_QSTRINGBUILDER QT_DISABLE_DEPRECATED_BEFORE=0x060400)
endfunction()

# A test says whether, not how fast: without most optimisation it compiles in two thirds of the time.
set(headroom_test_options "$<$<CONFIG:Release>:-O1>")

# headroom_test(NAME SOURCES... LIBRARIES libs... [LABELS labels...]): one GoogleTest program, discovered test by test.
# With libtorch all of its tests run in one process: to load libtorch takes longer than most of them.
function(headroom_test name)
    cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
    add_executable(${name} ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
    headroom_target(${name})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
    target_compile_definitions(${name} PRIVATE HEADROOM_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
        HEADROOM_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" HEADROOM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_compile_options(${name} PRIVATE ${headroom_test_options})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
    if("headroom_torch" IN_LIST arg_LIBRARIES)
        headroom_use_test_headers(${name} torch_test_headers)
        add_test(NAME ${name} COMMAND ${name})
        set_tests_properties(${name} PROPERTIES COST 5 LABELS "${arg_LABELS}")
    else()
        # What links Qt is compiled with -fPIC, which precompiled headers of programs do not fit.
        if(NOT "${arg_LIBRARIES}" MATCHES "headroom_(views|app)")
            headroom_use_test_headers(${name} core_test_headers)
        endif()
        gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${arg_LABELS}")
    endif()
endfunction()

# headroom_python_test(NAME SCRIPT file [ARGUMENTS args...] [LABELS labels...]): one Python program as a test, run by the
# Python that libtorch comes from. It ends with exit code 77 and a sentence if this Python lacks a package. Python tests
# take longest, so ctest starts them first (COST) and none runs alone at the end.
function(headroom_python_test name)
    cmake_parse_arguments(arg "" "SCRIPT" "ARGUMENTS;LABELS" ${ARGN})
    # site-packages is lib/pythonX.Y/site-packages of the environment
    add_test(NAME ${name} COMMAND "${Libtorch_PYTHON_PACKAGES}/../../../bin/python3" "${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT}"
        ${arg_ARGUMENTS})
    set_tests_properties(${name} PROPERTIES COST 10 SKIP_RETURN_CODE 77 LABELS "${arg_LABELS}" ENVIRONMENT
        "PYTHONPATH=${PROJECT_SOURCE_DIR}/packaging/python;HEADROOM_LIBRARY=$<TARGET_FILE:headroom_python>")
endfunction()

# headroom_qt_test(NAME SOURCES... LIBRARIES libs... [LABELS labels...]): one Qt Test program (QTEST_MAIN), run without a
# display and with an empty home.
function(headroom_qt_test name)
    cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
    add_executable(${name} ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
    headroom_qt_target(${name})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
    target_compile_definitions(${name} PRIVATE HEADROOM_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
        HEADROOM_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" HEADROOM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_compile_options(${name} PRIVATE ${headroom_test_options})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} Qt6::Test)
    if(HEADROOM_SANITIZE_THREADS)
        target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/views/clone.cpp")
    endif()
    headroom_use_test_headers(${name} qt_test_headers)
    add_test(NAME ${name} COMMAND ${name})
    set(home "${CMAKE_BINARY_DIR}/tests/home/${name}")
    file(MAKE_DIRECTORY "${home}/run")
    file(CHMOD "${home}/run" DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" ENVIRONMENT
        "QT_QPA_PLATFORM=offscreen;HOME=${home};XDG_CONFIG_HOME=${home};XDG_DATA_HOME=${home};XDG_RUNTIME_DIR=${home}/run")
endfunction()
