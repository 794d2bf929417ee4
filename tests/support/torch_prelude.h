// The one way a test that uses LibTorch gets doctest: LibTorch 1.13 brings glog's CHECK macros,
// which end the process where doctest's count a failure (pytorch issues 40687, 159444). LibTorch
// comes first, its macros go, doctest's take their place.
#pragma once

#include <torch/torch.h>

#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE
#undef REQUIRE
#undef WARN
#undef INFO

#include <doctest/doctest.h>
