// A stand-in, see cuda_runtime_api.h.
#pragma once

#include "cuda_runtime_api.h"
struct cusparseContext;
using cusparseHandle_t = cusparseContext*;
enum cusparseStatus_t { CUSPARSE_STATUS_SUCCESS };
