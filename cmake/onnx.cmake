# Whether this build can export to ONNX (export/onnx): TROUPE_HAS_ONNX, 1 or 0; where 0,
# TROUPE_ONNX_LACKS is what is missing, as a clause for messages; where 1, the libraries are in
# TROUPE_ONNX_LIBRARIES. Debian's LibTorch is linked with the same libraries: a second copy of the schema in one process,
# compiled from onnx.proto, would end it when Protocol Buffers sees both. pip's LibTorch has its own under other names
# (onnx_torch), so that both get along.
option(TROUPE_ONNX "Build the export to ONNX where the system has its library" ON)
set(TROUPE_HAS_ONNX 0)
if(NOT TROUPE_ONNX)
  set(TROUPE_ONNX_LACKS "Troupe was built with TROUPE_ONNX=OFF")
else()
  find_path(TROUPE_ONNX_INCLUDE onnx/checker.h)
  find_path(TROUPE_PROTOBUF_INCLUDE google/protobuf/message.h)
  find_library(TROUPE_ONNX_LIBRARY onnx)
  find_library(TROUPE_ONNX_PROTO_LIBRARY onnx_proto)
  find_library(TROUPE_PROTOBUF_LIBRARY protobuf)
  if(NOT TROUPE_ONNX_INCLUDE OR NOT TROUPE_ONNX_LIBRARY OR NOT TROUPE_ONNX_PROTO_LIBRARY)
    set(TROUPE_ONNX_LACKS "ONNX's library was missing when Troupe was built (Debian: libonnx-dev)")
  elseif(NOT TROUPE_PROTOBUF_INCLUDE OR NOT TROUPE_PROTOBUF_LIBRARY)
    set(TROUPE_ONNX_LACKS "Protocol Buffers, which ONNX's library needs, was missing when Troupe was built (Debian: libprotobuf-dev)")
  else()
    set(TROUPE_HAS_ONNX 1)
    set(TROUPE_ONNX_LIBRARIES ${TROUPE_ONNX_LIBRARY} ${TROUPE_ONNX_PROTO_LIBRARY} ${TROUPE_PROTOBUF_LIBRARY})
  endif()
endif()
if(TROUPE_HAS_ONNX)
  message(STATUS "export to ONNX: yes")
else()
  message(STATUS "export to ONNX: no, ${TROUPE_ONNX_LACKS}")
endif()
