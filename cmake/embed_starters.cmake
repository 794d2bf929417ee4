# cmake -D SOURCE=<root> -D OUT=<file.cpp> -P embed_starters.cmake: writes the source file that holds what
# `troupe new` writes. An example becomes a program of its own: template/'s build file, tests and README with its
# names, and includes that are found in its folder.
cmake_minimum_required(VERSION 3.23)
include(${CMAKE_CURRENT_LIST_DIR}/starters.cmake)

# swap(<file> <from> <to>): in `content`, the file's text, if `path` is <file>; <from> must be there.
function(swap file from to)
  if(path STREQUAL "${file}")
    string(FIND "${content}" "${from}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${input} for kind ${kind} has no line\n${from}")
    endif()
    string(REPLACE "${from}" "${to}" content "${content}")
    set(content "${content}" PARENT_SCOPE)
  endif()
endfunction()

set(mnist_does "Trains a convolutional network to read handwritten digits: generated ones, or with `--data-dir` MNIST's files.")
set(mnist_config "\"epochs\": 3")
set(mnist_program "troupe::Options options = troupe::parse_options(argc, argv);\n  MnistHooks hooks{options};")
set(regression_does "Predicts the weight of newborns from a table, which is generated, or read with `--data-dir`.")
set(regression_config "\"epochs\": 6")
set(regression_program "RegressionOptions mine;\n  troupe::Options options = troupe::parse_options(argc, argv, mine.flags());
  RegressionHooks hooks{options, mine};")
set(gan_does "Learns to draw handwritten digits from noise, with two networks and two optimisers.")
set(gan_config "\"epochs\": 2,\n  \"samples-dir\": \"samples\"")
set(gan_program "GanOptions mine;\n  troupe::Options options = troupe::parse_options(argc, argv, mine.flags());
  GanHooks hooks{options, mine};")

# Sources of the program, and what they need, as lines of its CMakeLists.txt.
string(REPLACE ";" "\n  " digit_lines "${digit_sources}")
set(digit_parts "# The same pixels on every machine: no fused multiply-add; without LibTorch, so without its header.
set(digits\n  ${digit_lines})
set_source_files_properties(\${digits} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
  \"-ffp-contract=off;$<$<CXX_COMPILER_ID:GNU>:-fno-tree-vectorize>\")
set_source_files_properties(digits/shapes.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)")
set(shared "troupe_precompile(my_training_parts)\nset(sources \"\")\nset(libraries my_training_parts)")
set(digit_list "\${digits}\n  digits/shapes.cpp\n  digits/example_data.cpp")
set(mnist_parts "${digit_parts}\nadd_library(my_training_parts STATIC\n  ${digit_list})
target_link_libraries(my_training_parts PUBLIC troupe::troupe)\n${shared}")
set(regression_parts "add_library(my_training_parts STATIC births.cpp)  # without LibTorch's header
target_link_libraries(my_training_parts PUBLIC troupe::troupe)\nset(sources \"\")\nset(libraries my_training_parts)")
set(gan_parts "${digit_parts}
set_source_files_properties(png.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
find_package(PNG REQUIRED)  # Debian: libpng-dev\nadd_library(my_training_parts STATIC\n  ${digit_list}\n  png.cpp)
target_link_libraries(my_training_parts PUBLIC troupe::troupe PNG::PNG)\n${shared}")

# An example's file, and what it takes over from template/.
macro(adapt)
  swap(CMakeLists.txt "set(sources \"\")\nset(libraries troupe::troupe)" "${${kind}_parts}")
  swap(README.md "Fill in the TODOs of `my_hooks.h`, build, run. As shipped, the program and its tests build, list the open
TODOs, and fail: the program with exit code 2." "${${kind}_does}")
  swap(README.md "| `my_hooks.h` | the TODOs; each comment shows a working line |"
       "| `${kind}_hooks.h` | data, models, optimisers, losses and steps |")
  swap(config.json "\"epochs\": 5,\n  \"batch-size\": 64,\n  \"learning-rate\": 0.01" "${${kind}_config}")
  swap(hooks_test.cpp "MyOptions options{argc, argv};\n  MyHooks hooks{options};" "${${kind}_program}")
  swap(hooks_test.cpp "my_hooks.h" "${kind}_hooks.h")
  swap(mnist_hooks.h " Result: see README.md (recorded run, with command)." "")
  swap(main.cpp "{\"${kind}\",\n" "{\"my_training\",\n")
  if(kind STREQUAL "gan")  # its training step draws noise
    swap(hooks_test.cpp "\nTEST_CASE(\"a training step is the same alone and on two replicas\") {"
         "\n// Each replica draws noise of its own, so the training step is another one.
TEST_CASE(\"a training step is the same alone and on two replicas\" * doctest::skip()) {")
  endif()
  # In the folder of its own that it is now.
  string(REPLACE "examples/${kind}/" "" content "${content}")
  if(path MATCHES "^digits/")
    string(REPLACE "\"examples/digits/" "\"" content "${content}")
  endif()
  string(REPLACE "examples/digits/" "digits/" content "${content}")
  string(REPLACE "template/" "Troupe's template/" content "${content}")
endmacro()

set(kinds "")
foreach(kind IN LISTS STARTER_KINDS)
  set(files "")
  foreach(input IN LISTS STARTER_${kind})
    file(READ ${SOURCE}/${input} content)
    string(REGEX REPLACE "^(template/|examples/${kind}/|examples/)" "" path ${input})
    string(REPLACE "// template/${path} -- " "// ${path} -- " content "${content}")
    if(NOT kind STREQUAL "template")
      adapt()
    endif()
    string(APPEND files "       {\"${path}\", R\"troupe(${content})troupe\"},\n")
  endforeach()
  string(APPEND kinds "      {\"${kind}\",\n      {\n${files}      }},\n")
endforeach()
file(WRITE ${OUT} "// Made by cmake/embed_starters.cmake.
#include \"troupe/launcher/starters.h\"

namespace troupe {

const std::vector<Starter>& starters() {
  static const std::vector<Starter> all = {\n${kinds}  };
  return all;
}

}  // namespace troupe
")
