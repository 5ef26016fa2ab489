#include "sim/order/rules.h"

#include <array>

namespace marrow::order {

namespace {

const std::vector<Rule> kRules = {
    // Lanes of a GPU.
    {"ptx-weak",
     "program order alone orders no two accesses of a lane to different words, seen by anybody "
     "else",
     "PTX ISA, Memory Consistency Model: program order is not part of causality order without a "
     "release or acquire pattern"},
    {"ptx-fence",
     "a fence orders what the lane did and saw before it ahead of what it does behind it, for "
     "observers in its scope",
     "PTX ISA, Memory Consistency Model: release and acquire patterns, causality order"},
    {"ptx-scope", "a fence orders nothing for an observer outside its scope: cta, gpu or sys",
     "PTX ISA, Memory Consistency Model: Scope; morally strong operations"},
    {"ptx-acquire",
     "a load behind a poll may have been done before it, unless an acquire (or a fence) of a scope "
     "that holds the writer stands between",
     "PTX ISA, Memory Consistency Model: acquire patterns"},
    {"ptx-atomicity", "atomics on a word take effect one after the other, each on the newest value",
     "PTX ISA, Memory Consistency Model: Atomicity axiom"},
    {"ptx-dependency",
     "a store or atomic behind a poll waits for what the poll saw: no value out of thin air",
     "PTX ISA, Memory Consistency Model: No-Thin-Air axiom"},
    {"ptx-barrier",
     "a CTA's barrier orders what its lanes did before it ahead of what they do behind",
     "PTX ISA, Memory Consistency Model: synchronizing operations, bar.sync"},
    {"gpu-home",
     "what a fence of gpu scope waited for is in the L2, which serves every device's reads of this "
     "GPU's memory: for words there gpu scope reaches NIC, CPU and peers",
     "NVSHMEM IBD:222 and DOCA DQP:443 fence with gpu scope when the queue is in GPU memory, "
     "NVSHMEM with sys when it is in host memory; path.md 1.A.1, 1.B.1"},
    {"kernel-end",
     "a kernel's end makes its stores visible to the system, the next kernel sees them",
     "CUDA C++ Programming Guide: memory visible at kernel boundaries of a stream"},
    // CPU threads.
    {"x86-tso",
     "a CPU's stores to host memory are seen in their order, its loads are done in theirs",
     "Intel SDM volume 3, Memory Ordering: write-back memory"},
    {"x86-wc",
     "a store to a register mapped write-combining may pass earlier stores; a store fence stops it",
     "Intel SDM volume 3, Memory Ordering: write combining; rdma-core util/udma_barrier.h "
     "(mmio_wc_start)"},
    // NIC, sending.
    {"nic-bell", "a doorbell says 'up to here'; an older one that comes later says nothing",
     "DOCA's handler without record rings without a lock, path.md 1.B.1"},
    {"nic-fetch", "behind a doorbell the NIC reads entry and payload at any time, once",
     "mlx5 in path.md section 5: no public source bounds the time"},
    {"nic-record",
     "a NIC that recovers takes the record instead of the doorbell: the last bell must "
     "find it written",
     "DOCA's comment on its two bells, path.md 1.B.1; rdma-core qp.c post_send_db"},
    {"nic-slot", "a queue's slot is free once a completion tells of its entry or a later one",
     "mlx5: entries complete in order; path.md 1.A.4"},
    {"nic-push", "a pushed descriptor counts once all its words carry the owner bit",
     "NCCL gin_gpi.h, path.md 1.E"},
    // Wire and far side.
    {"rc-queue", "one queue pair's requests are carried out in the order they were posted",
     "InfiniBand Architecture Specification volume 1, section 9.5, transaction ordering; 10.8.3 "
     "on queue pairs"},
    {"rc-queues", "two queue pairs have no order between them",
     "InfiniBand Architecture Specification volume 1: ordering is defined within a queue pair "
     "only"},
    {"rc-ack",
     "a completion says that the far NIC has taken the request, not that a reader sees it",
     "InfiniBand Architecture Specification volume 1, section 9.7.5: an acknowledgement means that "
     "the responder has taken over the request"},
    {"claim-ack-placed",
     "the library's claim: an acknowledged write is placed in the far memory ahead of all that "
     "comes later",
     "OpenSHMEM 1.5 shmem_quiet and shmem_fence, which NVSHMEM builds on completions (IBD:3390, "
     "3465); path.md section 6"},
    {"claim-atomic-placed",
     "the library's claim: a responder carries out an atomic when the earlier writes of its queue "
     "are placed",
     "NVSHMEM put_signal (IBD:3057) and path.md section 6; NOT SETTLED there for relaxed ordering"},
    // PCIe.
    {"pcie-posted",
     "a posted write without the RO bit passes no earlier posted write of its requester on one way",
     "PCI Express Base Specification, Transaction Ordering: ordering rules table, A2a"},
    {"pcie-relaxed", "a posted write with the RO bit may pass earlier posted writes",
     "PCI Express Base Specification, Transaction Ordering: ordering rules table, A2b"},
    {"pcie-paths", "posted writes to two different devices have no order between them",
     "PCI Express Base Specification: ordering is kept by a port and its queues, not across ways"},
    {"pcie-read", "a read pushes earlier posted writes of its requester ahead of itself",
     "PCI Express Base Specification, Transaction Ordering: ordering rules table, B2a"},
    {"gdr-order",
     "a device's writes are seen by the GPU that owns the memory in the order they came in (or, "
     "where the attribute says none, in any)",
     "CUDA driver API: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING; path.md 1.A.4"},
    // Programs.
    {"no-wait", "a reader that waits for nothing is ordered behind nothing",
     "a completion at the sender is the sender's: OpenSHMEM 1.5, shmem_quiet"},
};

constexpr std::array<HazardName, static_cast<std::size_t>(Hazard::kCount)> kHazards = {{
    {"entry", "doorbell before its entry is visible"},
    {"other_entry", "another lane's entry announced before it is visible"},
    {"payload", "doorbell before the source payload is visible"},
    {"record", "doorbell before its record is visible"},
    {"reader", "data used that is older than what its flag announced"},
    {"source", "source overwritten before the NIC read it"},
    {"slot", "slot of the queue overwritten before its entry was read"},
    {"stuck", "somebody waits for ever"},
}};

}  // namespace

const std::vector<Rule>& rules() { return kRules; }

const Rule* rule_named(std::string_view id) {
  for (const Rule& rule : kRules)
    if (rule.id == id) return &rule;
  return nullptr;
}

const HazardName& name(Hazard hazard) { return kHazards[static_cast<std::size_t>(hazard)]; }

}  // namespace marrow::order
