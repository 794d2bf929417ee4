// Part of a ring that include_graph.py must find.
#pragma once

#include "troupe/core/two/there.h"
