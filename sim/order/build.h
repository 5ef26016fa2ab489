// Puts small programs together: calls of a recipe's operations and single steps, thread by thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/common/program.h"
#include "sim/order/program.h"

namespace marrow::order {

/// What the machine around a program is like.
struct Setup {
  std::uint32_t nodes = 2;   ///< node n sends to node n + 1, the last to the first
  std::uint32_t queues = 1;  ///< of each node
  std::uint32_t depth = 8;   ///< entries of a queue: small, so that a ring wraps in a small program
};

struct Call {
  OpKind kind = OpKind::kPut;
  std::string data = "data";  ///< which payload
  bool wait = false;          ///< waits for this put's own completion
  bool flush = true;          ///< nothing follows that would ring
  bool elsewhere = false;     ///< on another queue of the node than the lane's
};

class Builder {
 public:
  /// recipe: nullptr for programs of single steps. Kept as a copy, with the setup's depth.
  Builder(const Program* recipe, const Setup& setup);

  /// lane: its number on its node; lane k of a node speaks to lane k of the next one.
  std::uint8_t thread(const std::string& name, std::uint8_t node, MemoryKind on, std::uint8_t cta,
                      std::uint8_t lane, std::uint8_t queue);

  // A recipe's operations, and what a program does around them.
  void call(std::uint8_t thread, const Call& call);
  void write(std::uint8_t thread, const std::string& data);  ///< the next version of a source
  /// Loads what a put brought. expects: an older version is a hazard.
  void read(std::uint8_t thread, const std::string& data, Word16 expects,
            const std::string& result);
  void read_sink(std::uint8_t thread, const std::string& data, Word16 expects,
                 const std::string& result);
  /// Polls what a put writes: the data itself is the flag.
  void await(std::uint8_t thread, const std::string& data, Word16 at_least, Scope acquire);
  void kernel_end(std::uint8_t thread);
  void sync(std::uint8_t thread, std::uint8_t barrier);

  // Single steps on words of the program's own.
  void word(const std::string& name, Home home, bool relaxed);
  bool has_word(const std::string& name) const { return names_.count(name) > 0; }
  void store(std::uint8_t thread, const std::string& word, Word16 value);
  void load(std::uint8_t thread, const std::string& word, const std::string& result, Scope acquire,
            Word16 expects);
  void poll(std::uint8_t thread, const std::string& word, Word16 at_least, Scope acquire);
  void add(std::uint8_t thread, const std::string& word, const std::string& result, Scope acquire);
  void fence(std::uint8_t thread, Scope scope);
  /// Hands the NIC an entry, as a put without any fault would. from: of a write, may be empty
  /// (inline). completes: word of this node that counts completions, may be empty.
  void post(std::uint8_t thread, std::uint8_t queue, EntryForm form, const std::string& from,
            const std::string& to);
  void completes(std::uint8_t queue, const std::string& word);

  /// The recipe's own claims, or others.
  OrderProgram& program() { return out_; }
  void relax(bool target, bool signal) {
    relax_target_ = target;
    relax_signal_ = signal;
  }
  OrderProgram finish();

 private:
  struct Lane {
    std::uint8_t lane = 0;
    Word16 puts = 0, waits = 0;
    std::map<std::string, Word16> versions;
    std::uint8_t results = 0;
  };
  struct At {  ///< where a lowered step stands
    std::uint8_t thread;
    const Call* call;
    Word16 entries;
  };

  std::uint16_t location(const std::string& name, Home home, Word16 initial = 0);
  std::uint16_t single(std::uint16_t location);
  std::uint16_t table_of(const At& at, std::uint32_t word);
  Home home_of(std::uint32_t word, std::uint8_t node) const;
  std::uint8_t peer_of(std::uint8_t node) const {
    return static_cast<std::uint8_t>((node + 1) % setup_.nodes);
  }
  std::uint16_t source(std::uint8_t node, const std::string& data);
  std::uint16_t target(std::uint8_t node, const std::string& data);
  std::uint16_t sink(std::uint8_t node, const std::string& data);
  std::uint16_t signal(std::uint8_t node, std::uint8_t lane);
  std::uint16_t receives(std::uint8_t node, std::uint8_t lane);
  void make_queues();
  Op& push(std::uint8_t thread, OpCode code, std::string text);
  void move(std::uint8_t thread, std::int8_t to, Operand value);
  void lower(const At& at, std::size_t from, std::size_t to);
  void lower_step(const At& at, const Step& step);
  std::uint8_t entry(const At& at, const Step& step);
  Operand operand(const At& at, const Step& step, Value value) const;
  std::int8_t result(std::uint8_t thread, const std::string& name);
  /// A recipe's result as a register: its index has one of its own.
  std::int8_t reg(std::uint8_t of_recipe) const {
    return of_recipe == index_reg_ ? kIndexReg : static_cast<std::int8_t>(of_recipe);
  }
  void drop_idle_loads();

  Setup setup_;
  std::optional<Program> recipe_;
  OrderProgram out_;
  std::vector<Lane> lanes_;
  std::map<std::string, std::uint16_t> names_;
  std::map<std::string, std::uint16_t> tables_;
  std::vector<std::uint16_t> rings_, announcements_, completions_, answers_, bells_, records_;
  bool relax_target_ = false, relax_signal_ = false;
  std::uint32_t batch_most_ = 1;
  bool polls_answers_ = false;
  std::uint8_t index_reg_ = kNoRegister;
};

}  // namespace marrow::order
