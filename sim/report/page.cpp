#include "sim/report/page.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "models/common/error.h"

namespace marrow::report {

void write_page(std::ostream& out, const std::string& template_file,
                const nlohmann::ordered_json& data) {
  std::ifstream in(template_file, std::ios::binary);
  if (!in)
    throw InputError("report", "marrow was built without the report's page",
                     "install nodejs and npm (Debian: apt-get install nodejs npm) and build again "
                     "with the npm registry reachable: cmake --preset release && cmake --build "
                     "build");
  std::stringstream page;
  page << in.rdbuf();
  const std::string text = page.str();
  const std::string mark = "\"MARROW_DATA\"";
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) throw std::logic_error(template_file + " has no place for the data");
  out.write(text.data(), static_cast<std::streamsize>(at));
  // Within a script element "</" and "<!" would end or nest it.
  const std::string json =
      data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  for (const char c : json)
    if (c == '<')
      out << "\\u003c";
    else
      out.put(c);
  out.write(text.data() + at + mark.size(),
            static_cast<std::streamsize>(text.size() - at - mark.size()));
}

}  // namespace marrow::report
