// A stand-in, see cuda_runtime_api.h.
#pragma once

#include "cuda_runtime_api.h"
enum cusolverStatus_t { CUSOLVER_STATUS_SUCCESS };
