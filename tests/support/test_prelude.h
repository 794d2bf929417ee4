// The one way a test that does not use LibTorch gets doctest. A test that does includes
// torch_prelude.h instead; tests/rules/include_graph.py checks that nobody includes doctest
// directly.
#pragma once

#include <doctest/doctest.h>
