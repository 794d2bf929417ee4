// Includes what is not installed, which include_graph.py must find.
#include "troupe/core/two/there.h"
