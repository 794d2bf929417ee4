#define TROUPE_XXH3 kXxh3
#include "troupe/core/xxh3/xxh3.inc"
