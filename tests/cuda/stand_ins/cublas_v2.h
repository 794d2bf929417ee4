// A stand-in, see cuda_runtime_api.h.
#pragma once

#include "cuda_runtime_api.h"
struct cublasContext;
using cublasHandle_t = cublasContext*;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
