// A stand-in, see cuda_runtime_api.h.
#pragma once

#include "cublas_v2.h"
struct cublasLtContext;
using cublasLtHandle_t = cublasLtContext*;
