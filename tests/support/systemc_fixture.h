// A SystemC kernel of its own for each test, so that one process can build many small models.
#pragma once

#include <gtest/gtest.h>

#include <systemc>
#include <vector>

#include "models/common/time.h"

namespace marrow {

class SystemC : public testing::Test {
 protected:
  SystemC() {
    sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);
    sc_core::sc_report_handler::set_actions(sc_core::SC_WARNING, sc_core::SC_DO_NOTHING);
    renew();
  }

  /// What was built before must not be used any more. The kernel has no way to take a context down
  /// while its modules live, so the old ones are kept.
  static void renew() {
    static auto* const contexts = new std::vector<sc_core::sc_simcontext*>;
    contexts->push_back(new sc_core::sc_simcontext);
    sc_core::sc_curr_simcontext = contexts->back();
    sc_core::sc_default_global_context = contexts->back();
  }

  /// Ports are bound from here on.
  static void elaborate() { sc_core::sc_start(sc_core::SC_ZERO_TIME); }
  /// Until nothing is left to do.
  static void run() {
    sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_SEC), sc_core::SC_EXIT_ON_STARVATION);
  }
  /// Everything that happens up to and at this time. The kernel stops before what is due at the end
  /// of its slice, so it is given a picosecond more.
  static void run_to(Ps at_ps) {
    const auto end = sc_core::sc_time::from_value(static_cast<std::uint64_t>(at_ps) + 1);
    sc_core::sc_start(end - sc_core::sc_time_stamp());
  }
};

}  // namespace marrow
