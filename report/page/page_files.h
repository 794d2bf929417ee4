// The files of report/page/, embedded at build time (report/page/embed.cmake).
#pragma once

#include <string_view>

namespace troupe::page {

extern const std::string_view kFrame;   // page.html
extern const std::string_view kStyle;   // style.css
extern const std::string_view kScript;  // the scripts, one after the other

}  // namespace troupe::page
