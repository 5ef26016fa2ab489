// The report's page: a template with everything but the data.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

namespace marrow::report {

/// Writes the template (sim/report/web, bundled at build time) with the data in it: one HTML file
/// that needs nothing else. Throws InputError, saying what to install, where there is no template
/// because marrow was built without Node.
void write_page(std::ostream& out, const std::string& template_file,
                const nlohmann::ordered_json& data);

}  // namespace marrow::report
