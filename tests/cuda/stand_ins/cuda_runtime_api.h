// What LibTorch's headers and ours use of CUDA's runtime: enough to compile against, nothing to
// run. The names are NVIDIA's; the numbers are those that the headers compare with.
#pragma once

#include <cstddef>
#include <cstdint>
#define CUDART_VERSION 12040
#define CUDA_VERSION 12040
#define CUDART_CB
#define CUDA_IPC_HANDLE_SIZE 64
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorMemoryAllocation = 2
};
using cudaError = cudaError_t;
struct CUstream_st;
using cudaStream_t = CUstream_st*;
struct CUevent_st;
using cudaEvent_t = CUevent_st*;
struct CUgraph_st;
using cudaGraph_t = CUgraph_st*;
struct CUgraphExec_st;
using cudaGraphExec_t = CUgraphExec_st*;
using cudaGraphNode_t = void*;
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaDataType { CUDA_R_16F, CUDA_R_32F };
using cudaDataType_t = cudaDataType;
struct cudaIpcMemHandle_t {
  char reserved[64];
};
struct cudaIpcEventHandle_t {
  char reserved[64];
};
struct cudaDeviceProp {
  char name[256];
  int major;
  int minor;
  int multiProcessorCount;
  std::size_t totalGlobalMem;
  int warpSize;
  int maxThreadsPerBlock;
  std::size_t sharedMemPerBlock;
  int maxThreadsPerMultiProcessor;
};
enum {
  cudaEventDefault = 0,
  cudaEventBlockingSync = 1,
  cudaEventDisableTiming = 2,
  cudaEventInterprocess = 4,
  cudaStreamDefault = 0,
  cudaStreamNonBlocking = 1,
  cudaIpcMemLazyEnablePeerAccess = 1
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
#define TROUPE_CUDA(name, ...) extern "C" cudaError_t name(__VA_ARGS__)
TROUPE_CUDA(cudaGetDevice, int*);
TROUPE_CUDA(cudaSetDevice, int);
TROUPE_CUDA(cudaGetDeviceCount, int*);
TROUPE_CUDA(cudaGetLastError, );
TROUPE_CUDA(cudaPeekAtLastError, );
TROUPE_CUDA(cudaStreamQuery, cudaStream_t);
TROUPE_CUDA(cudaStreamSynchronize, cudaStream_t);
TROUPE_CUDA(cudaStreamCreateWithPriority, cudaStream_t*, unsigned, int);
TROUPE_CUDA(cudaStreamGetPriority, cudaStream_t, int*);
TROUPE_CUDA(cudaDeviceGetStreamPriorityRange, int*, int*);
TROUPE_CUDA(cudaStreamIsCapturing, cudaStream_t, cudaStreamCaptureStatus*);
TROUPE_CUDA(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned = 0);
TROUPE_CUDA(cudaThreadExchangeStreamCaptureMode, cudaStreamCaptureMode*);
TROUPE_CUDA(cudaEventCreate, cudaEvent_t*);
TROUPE_CUDA(cudaEventCreateWithFlags, cudaEvent_t*, unsigned);
TROUPE_CUDA(cudaEventRecord, cudaEvent_t, cudaStream_t = nullptr);
TROUPE_CUDA(cudaEventRecordWithFlags, cudaEvent_t, cudaStream_t, unsigned);
TROUPE_CUDA(cudaEventQuery, cudaEvent_t);
TROUPE_CUDA(cudaEventSynchronize, cudaEvent_t);
TROUPE_CUDA(cudaEventDestroy, cudaEvent_t);
TROUPE_CUDA(cudaEventElapsedTime, float*, cudaEvent_t, cudaEvent_t);
TROUPE_CUDA(cudaIpcGetEventHandle, cudaIpcEventHandle_t*, cudaEvent_t);
TROUPE_CUDA(cudaIpcOpenEventHandle, cudaEvent_t*, cudaIpcEventHandle_t);
TROUPE_CUDA(cudaDeviceSynchronize, );
TROUPE_CUDA(cudaMemcpyAsync, void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t);
extern "C" const char* cudaGetErrorString(cudaError_t);
extern "C" const char* cudaGetErrorName(cudaError_t);
