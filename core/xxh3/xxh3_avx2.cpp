// Compiled with -mavx2 (CMakeLists.txt), alone: nothing else may use such instructions.
#define TROUPE_XXH3 kXxh3Avx2
#include "troupe/core/xxh3/xxh3.inc"
