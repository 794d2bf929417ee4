// What a training sees of an elastic group: Strategy::elastic().
#pragma once

#include "troupe/distributed/elastic/elasticity.h"
