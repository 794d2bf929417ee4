# Writes OUTPUT, which defines report/page/page_files.h, from FRAME, STYLE and SCRIPTS (files, SCRIPTS with | between).
cmake_minimum_required(VERSION 3.23)
function(literal variable)
  set(made "")
  foreach(file IN LISTS ARGN)
    file(READ ${file} content)
    string(APPEND made "\n    R\"page(${content})page\"")
  endforeach()
  set(${variable} "${made}" PARENT_SCOPE)
endfunction()
string(REPLACE "|" ";" scripts "${SCRIPTS}")
literal(frame ${FRAME})
literal(style ${STYLE})
literal(script ${scripts})
file(WRITE ${OUTPUT} "#include \"troupe/report/page/page_files.h\"\n\nnamespace troupe::page {\n
const std::string_view kFrame =${frame};
const std::string_view kStyle =${style};
const std::string_view kScript =${script};\n
}  // namespace troupe::page\n")
