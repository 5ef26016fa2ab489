#include "tools/capture/nic/mlx5_device.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "models/common/error.h"
#include "tools/capture/host/layout.h"

namespace marrow::capture {

namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::size_t kUarPageBytes = 4096;

/// A command or an answer of the device: fields of so many bits, counted from the first byte's top.
template <std::size_t kBytes>
class Command {
 public:
  void set(std::size_t bit, std::size_t width, std::uint64_t value) {
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = bit + width - 1 - i;
      const auto mask = static_cast<std::uint8_t>(0x80u >> at % 8);
      bytes_[at / 8] =
          static_cast<std::uint8_t>((bytes_[at / 8] & ~mask) | ((value >> i & 1) != 0 ? mask : 0));
    }
  }
  std::uint64_t get(std::size_t bit, std::size_t width) const {
    std::uint64_t value = 0;
    for (std::size_t at = bit; at < bit + width; ++at)
      value = value << 1 | (bytes_[at / 8] >> (7 - at % 8) & 1);
    return value;
  }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  static constexpr std::size_t size() { return kBytes; }

 private:
  std::array<std::uint8_t, kBytes> bytes_{};
};
using Answer = Command<16>;
constexpr std::size_t kAnswerObject = 72;  ///< 24 bits: the number of what was made

// Where a command's context begins, and fields in it, in bits.
constexpr std::size_t kCqContext = 128, kQpContext = 192, kPath = kQpContext + 192;
constexpr std::uint32_t kCreateCq = 0x400, kCreateQp = 0x500, kResetToInit = 0x502,
                        kInitToReady = 0x503, kReadyToSend = 0x504;

[[noreturn]] void fail(const std::string& what, const std::string& mend) {
  throw InputError("mlx5 NIC", what, mend);
}
std::string reason() { return std::strerror(errno); }

template <class T>
T* need(T* made, const std::string& what, const std::string& mend) {
  if (made == nullptr) fail(what + ": " + reason(), mend);
  return made;
}

const char* const kPeerMemory =
    "GPU memory must be registrable: load nvidia-peermem, or use a kernel and driver with dma-buf";
const char* const kDevx = "DevX needs rdma-core's mlx5 provider and CAP_NET_RAW or root";

}  // namespace

struct Mlx5Device::Impl {
  ibv_context* context = nullptr;
  ibv_port_attr port{};
  std::string model, link;
  ibv_pd* pd = nullptr;
  std::uint32_t pdn = 0, eqn = 0;
  ibv_mr* mr = nullptr;
  mlx5dv_devx_umem* umem = nullptr;
  mlx5dv_devx_uar* uar = nullptr;
  std::vector<mlx5dv_devx_obj*> cqs, qps;
  std::vector<std::uint32_t> qpns;
  ibv_gid gid{};
  std::uint8_t gid_index = 0;
  std::array<std::uint8_t, 6> mac{};

  ~Impl() {
    for (auto* qp : qps) mlx5dv_devx_obj_destroy(qp);
    for (auto* cq : cqs) mlx5dv_devx_obj_destroy(cq);
    if (uar) mlx5dv_devx_free_uar(uar);
    if (umem) mlx5dv_devx_umem_dereg(umem);
    if (mr) ibv_dereg_mr(mr);
    if (pd) ibv_dealloc_pd(pd);
    if (context) ibv_close_device(context);
  }

  void open(const std::string& name);
  void find_own_address();
  void register_memory(const NicMemory& memory);
  void create(const NicQueuePlace& place);
  void connect(std::size_t queue);
  bool ethernet() const { return port.link_layer == IBV_LINK_LAYER_ETHERNET; }
};

void Mlx5Device::Impl::open(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0) {
    if (list) ibv_free_device_list(list);
    fail("this machine has no RDMA device", "use --consumer host, device or peer");
  }
  std::string seen;
  for (int i = 0; i < count && context == nullptr; ++i) {
    const std::string device = ibv_get_device_name(list[i]);
    seen += (seen.empty() ? "" : ", ") + device;
    if (!name.empty() && device != name) continue;
    if (!mlx5dv_is_supported(list[i])) {
      seen += " (not mlx5)";
      continue;
    }
    mlx5dv_context_attr attr{};
    attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
    context = mlx5dv_open_device(list[i], &attr);
    if (context == nullptr) {
      seen += " (no DevX: " + reason() + ")";
    } else if (ibv_query_port(context, kPort, &port) != 0 || port.state != IBV_PORT_ACTIVE) {
      seen += " (its port is not active)";
      ibv_close_device(context);
      context = nullptr;
    }
  }
  ibv_free_device_list(list);
  if (context == nullptr) fail("none can be used: " + seen, kDevx);
  ibv_device_attr attributes{};
  if (ibv_query_device(context, &attributes) == 0)
    model = "part " + std::to_string(attributes.vendor_part_id) + ", firmware " + attributes.fw_ver;
  link = ethernet() ? "RoCE" : "InfiniBand";
}

/// Loopback needs its own address: a LID, or a GID and the MAC that belongs to it.
void Mlx5Device::Impl::find_own_address() {
  if (!ethernet()) return;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(port.gid_tbl_len); ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, kPort, i, &entry, 0) != 0) continue;
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    gid = entry.gid;
    gid_index = static_cast<std::uint8_t>(i);
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = kPort;
    attr.grh.dgid = gid;
    attr.grh.sgid_index = gid_index;
    attr.grh.hop_limit = 64;
    ibv_ah* ah = ibv_create_ah(pd, &attr);
    if (ah == nullptr) continue;
    mlx5dv_ah out{};
    mlx5dv_obj object{};
    object.ah.in = ah;
    object.ah.out = &out;
    const bool known = mlx5dv_init_obj(&object, MLX5DV_OBJ_AH) == 0;
    if (known) std::memcpy(mac.data(), out.av->rmac, mac.size());
    ibv_destroy_ah(ah);
    if (known) return;
  }
  fail("its port has no RoCE v2 address", "give the port's network interface an address");
}

void Mlx5Device::Impl::register_memory(const NicMemory& memory) {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  mlx5dv_devx_umem_in in{};
  in.addr = memory.address;
  in.size = memory.bytes;
  in.access = IBV_ACCESS_LOCAL_WRITE;
  in.pgsz_bitmap = ~std::uint64_t{0} << 12;
  if (memory.dmabuf >= 0) {
    mr = ibv_reg_dmabuf_mr(pd, 0, memory.bytes, reinterpret_cast<std::uint64_t>(memory.address),
                           memory.dmabuf, kAccess);
    in.addr = nullptr;
    in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
    in.dmabuf_fd = memory.dmabuf;
    if (mr) umem = mlx5dv_devx_umem_reg_ex(context, &in);
  } else {
    mr = ibv_reg_mr(pd, memory.address, memory.bytes, kAccess);
    if (mr)
      umem = mlx5dv_devx_umem_reg(context, memory.address, memory.bytes, IBV_ACCESS_LOCAL_WRITE);
  }
  need(mr, "the GPU's memory cannot be registered", kPeerMemory);
  need(umem, "the GPU's memory cannot hold queues", kPeerMemory);
}

void Mlx5Device::Impl::create(const NicQueuePlace& place) {
  constexpr std::uint32_t kLogDepth = std::countr_zero(kDepth);
  Command<272> cq;
  cq.set(0, 16, kCreateCq);
  cq.set(kCqContext + 6, 1, 1);                // dbr_umem_valid
  cq.set(kCqContext + 11, 1, 1);               // cc: collapsed into the first entry
  cq.set(kCqContext + 14, 1, 1);               // oi: overrun is ignored
  cq.set(kCqContext + 32, 32, umem->umem_id);  // dbr_umem_id
  cq.set(kCqContext + 99, 5, kLogDepth);       // log_cq_size
  cq.set(kCqContext + 104, 24, uar->page_id);
  cq.set(kCqContext + 184, 8, eqn);
  cq.set(kCqContext + 448, 64, place.cq_dbrec);  // db_record_addr
  cq.set(640, 64, place.cq);                     // cq_umem_offset
  cq.set(704, 32, umem->umem_id);
  cq.set(736, 1, 1);  // cq_umem_valid
  Answer made;
  cqs.push_back(
      need(mlx5dv_devx_obj_create(context, cq.data(), cq.size(), made.data(), made.size()),
           "no completion queue (syndrome " + std::to_string(made.get(32, 32)) + ")", kDevx));
  const std::uint64_t cqn = made.get(kAnswerObject, 24);

  Command<272> qp;
  qp.set(0, 16, kCreateQp);
  qp.set(kQpContext + 8, 8, 0);   // RC
  qp.set(kQpContext + 19, 2, 3);  // path migration state: migrated
  qp.set(kQpContext + 40, 24, pdn);
  qp.set(kQpContext + 81, 4, kLogDepth);  // log_sq_size
  qp.set(kQpContext + 88, 2, 1);          // ts_format: default
  qp.set(kQpContext + 104, 24, uar->page_id);
  qp.set(kQpContext + 1000, 24, cqn);          // cqn_snd
  qp.set(kQpContext + 1256, 24, cqn);          // cqn_rcv
  qp.set(kQpContext + 1280, 64, place.dbrec);  // dbr_addr
  qp.set(kQpContext + 1381, 3, 3);             // rq_type: none
  qp.set(kQpContext + 1667, 1, 1);             // dbr_umem_valid
  qp.set(kQpContext + 1824, 32, umem->umem_id);
  qp.set(2048, 64, place.ring);  // wq_umem_offset
  qp.set(2112, 32, umem->umem_id);
  qp.set(2144, 1, 1);  // wq_umem_valid
  qps.push_back(
      need(mlx5dv_devx_obj_create(context, qp.data(), qp.size(), made.data(), made.size()),
           "no queue pair (syndrome " + std::to_string(made.get(32, 32)) + ")", kDevx));
  qpns.push_back(static_cast<std::uint32_t>(made.get(kAnswerObject, 24)));
}

void Mlx5Device::Impl::connect(std::size_t queue) {
  const auto modify = [&](std::uint32_t opcode, const char* state, const auto& fill) {
    Command<272> command;
    command.set(0, 16, opcode);
    command.set(72, 24, qpns[queue]);
    command.set(kPath + 296, 8, kPort);  // vhca_port_num
    fill(command);
    Answer done;
    if (mlx5dv_devx_obj_modify(qps[queue], command.data(), command.size(), done.data(),
                               done.size()) != 0)
      fail(std::string("the queue pair does not get ") + state + " (syndrome " +
               std::to_string(done.get(32, 32)) + ")",
           kDevx);
  };
  modify(kResetToInit, "initialised", [&](Command<272>& c) {
    c.set(kQpContext + 1168, 1, 1);  // rre
    c.set(kQpContext + 1169, 1, 1);  // rwe
  });
  modify(kInitToReady, "ready to receive", [&](Command<272>& c) {
    c.set(kQpContext + 64, 3, port.active_mtu);
    c.set(kQpContext + 67, 5, 30);             // log_msg_max
    c.set(kQpContext + 168, 24, qpns[queue]);  // remote_qpn: its own
    c.set(kQpContext + 1187, 5, 12);           // min_rnr_nak
    if (!ethernet()) {
      c.set(kPath + 48, 16, port.lid);  // rlid
      return;
    }
    c.set(kPath + 72, 8, gid_index);  // src_addr_index
    c.set(kPath + 88, 8, 64);         // hop_limit
    for (std::size_t i = 0; i < 16; ++i) c.set(kPath + 128 + 8 * i, 8, gid.raw[i]);
    c.set(kPath + 272, 16, 0xc000);  // udp_sport
    for (std::size_t i = 0; i < 6; ++i) c.set(kPath + 304 + 8 * i, 8, mac[i]);
  });
  modify(kReadyToSend, "ready to send", [&](Command<272>& c) {
    c.set(kPath + 64, 5, 14);       // ack_timeout: 67 ms
    c.set(kQpContext + 909, 3, 7);  // retry_count
    c.set(kQpContext + 912, 3, 7);  // rnr_retry
  });
}

Mlx5Device::Mlx5Device(const std::string& name, const NicMemory& memory,
                       const std::vector<NicQueuePlace>& places)
    : impl_(std::make_unique<Impl>()) {
  Impl& i = *impl_;
  i.open(name);
  i.pd = need(ibv_alloc_pd(i.context), "no protection domain", kDevx);
  mlx5dv_pd pd{};
  mlx5dv_obj object{};
  object.pd.in = i.pd;
  object.pd.out = &pd;
  if (mlx5dv_init_obj(&object, MLX5DV_OBJ_PD) != 0) fail("no protection domain number", kDevx);
  i.pdn = pd.pdn;
  i.find_own_address();
  i.register_memory(memory);
  if (mlx5dv_devx_query_eqn(i.context, 0, &i.eqn) != 0) fail("no event queue", kDevx);
  i.uar = need(mlx5dv_devx_alloc_uar(i.context, MLX5DV_UAR_ALLOC_TYPE_NC), "no doorbell register",
               kDevx);
  for (const NicQueuePlace& place : places) {
    i.create(place);
    i.connect(i.qps.size() - 1);
  }
}
Mlx5Device::~Mlx5Device() = default;

std::uint32_t Mlx5Device::qpn(std::size_t queue) const { return impl_->qpns.at(queue); }
std::uint32_t Mlx5Device::lkey() const { return impl_->mr->lkey; }
std::uint32_t Mlx5Device::rkey() const { return impl_->mr->rkey; }
std::size_t Mlx5Device::uar_offset() const {
  return reinterpret_cast<std::uintptr_t>(impl_->uar->reg_addr) % kUarPageBytes;
}
void* Mlx5Device::uar_page() const {
  return static_cast<char*>(impl_->uar->reg_addr) - uar_offset();
}
std::string Mlx5Device::about() const {
  return "mlx5, " + impl_->model + ", " + impl_->link + ", loopback";
}

}  // namespace marrow::capture
