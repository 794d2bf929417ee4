# What `troupe new` writes, by kind: files of this tree, whose place in the new folder is their path without
# template/, examples/ and the example's name. STARTER_INPUTS are all of them.
set(STARTER_KINDS template mnist regression gan)
set(written_for_all template/CMakeLists.txt template/README.md template/.gitignore template/.vscode/tasks.json
                    template/cluster.json template/config.json template/hooks_test.cpp)
set(digit_sources digits/digits.cpp digits/digit_pen.cpp digits/digit_shape.cpp)
set(data_headers digits/digits.h digits/digit_drawing.h digits/shapes.h digits/example_data.h)
set(generated_digits ${digit_sources} digits/shapes.cpp digits/example_data.cpp ${data_headers})
list(TRANSFORM generated_digits PREPEND examples/)

set(STARTER_template ${written_for_all} template/main.cpp template/my_hooks.h)
set(STARTER_mnist ${written_for_all} examples/mnist/main.cpp examples/mnist/mnist_hooks.h ${generated_digits})
set(STARTER_regression ${written_for_all} examples/regression/main.cpp examples/regression/regression_hooks.h
                       examples/regression/wide_and_deep.h examples/regression/births.h examples/regression/births.cpp)
set(STARTER_gan ${written_for_all} examples/gan/main.cpp examples/gan/gan_hooks.h examples/gan/networks.h
                examples/gan/sample_grids.h examples/gan/png.h examples/gan/png.cpp ${generated_digits})

set(STARTER_INPUTS "")
foreach(kind IN LISTS STARTER_KINDS)
  list(APPEND STARTER_INPUTS ${STARTER_${kind}})
endforeach()
list(REMOVE_DUPLICATES STARTER_INPUTS)
