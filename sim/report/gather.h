// Gathers what other commands wrote into what the report's page shows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace marrow::report {

/// Reads files and, of folders, what is in them and below that is known:
///   marrow.run/1, marrow.validate/1, marrow.sweep/1 (JSON), CSVs of messages (also gzipped).
/// notes: a file of lines "capture | case | stage | why" or "measurements | id | | why" that say
/// why a row of a validation misses; empty: none.
///
/// Gives {schema: "marrow.report/1", version, sources[] {file, what, skipped, fault?}, stages[],
///   runs[], messages[], validations[], sweeps[]}: the files' own JSON, each with its "file";
/// validation rows with their "why"; sweeps with points by column, and without sensitivities
/// below a ten-thousandth. Deterministic: no date, files in the order given, folders by name.
/// Throws InputError for a path that is not there, a file named by itself that is of another kind
/// or holds what no command writes (empty, out of range, of another type), and where nothing at all
/// is found. Such a file in a folder is skipped, with its fault among the sources.
nlohmann::ordered_json gather(const std::vector<std::string>& paths, const std::string& notes,
                              const std::string& version);

}  // namespace marrow::report
