// A stand-in, see cuda_runtime_api.h.
#pragma once

#include "cusolver_common.h"
struct cusolverDnContext;
using cusolverDnHandle_t = cusolverDnContext*;
