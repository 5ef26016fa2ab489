#include "models/host/cpu_thread.h"

#include <algorithm>

namespace marrow::host {

CpuThread::CpuThread(sc_core::sc_module_name name, const HostSpec& spec, HostMemory* memory)
    : Consumer(name), spec_(spec), memory_(memory), stores_("stores", [this](Store& store, Ps) {
        memory_->core_store(store.address, store.value, store.bytes);
      }) {}

Ps CpuThread::store_completion(std::uint64_t address, std::uint64_t value, std::uint32_t bytes,
                               Ps issue_ps) {
  stores_.push(std::max(issue_ps, now_ps()), {address, value, bytes});
  return issue_ps;
}

void CpuThread::watch(std::uint64_t begin, std::uint64_t end) {
  memory_->watch(begin, end, [this](std::uint64_t address, std::uint64_t, Ps at_ps) {
    announced(address, at_ps);
  });
}

}  // namespace marrow::host
