// The rules that orders rest on, in one place: each with what it says and where it is said. The
// machine (machine.h) carries them out; reports and litmus files name them by id.
#pragma once

#include <string_view>
#include <vector>

namespace marrow::order {

struct Rule {
  std::string_view id;
  std::string_view says;
  std::string_view source;
};

const std::vector<Rule>& rules();
/// nullptr: there is none of that name.
const Rule* rule_named(std::string_view id);

/// What can go wrong, in the words of reports.
enum class Hazard : unsigned char {
  kEntry,       ///< the NIC reads an entry that its lane's stores have not reached
  kOtherEntry,  ///< the same, and another lane rang
  kPayload,     ///< the NIC reads a payload from before its store
  kRecord,      ///< no bell came after the doorbell record that goes with it
  kReader,      ///< a reader uses data older than what it waited for
  kSource,      ///< a source is overwritten before the NIC has read it
  kSlot,        ///< a queue's slot is overwritten before the NIC has read its entry
  kStuck,       ///< somebody waits for ever
  kCount
};
struct HazardName {
  std::string_view id;
  std::string_view says;
};
const HazardName& name(Hazard hazard);

}  // namespace marrow::order
