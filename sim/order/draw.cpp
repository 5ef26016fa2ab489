#include "sim/order/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace marrow::order {

namespace {

constexpr int kRow = 20, kLane = 62, kLeft = 36, kTop = 58, kChar = 7, kWho = 9;
const std::string kMemory = "memory";

struct Event {
  std::size_t column = 0;
  std::string text;
  bool hazard = false;
  int from = -1;  ///< the event that sent what arrives here
};

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}

/// Does the text name that word: data, of "stores data = 1"?
bool names(const std::string& text, const std::string& word) {
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]));
    const std::size_t end = at + word.size();
    if (begins && (end == text.size() || !std::isalnum(static_cast<unsigned char>(text[end]))))
      return true;
  }
  return false;
}

/// "source of a (node 0)", "entry[0].q0": what a store of it calls it.
std::string short_name(std::string name) {
  if (name.starts_with("source of ")) name.erase(0, 10);
  return name.substr(0, name.find_first_of("[.("));
}

class Picture {
 public:
  explicit Picture(const Judged& program) : program_(program) {
    for (const std::string& line : program.verdict.witness) add(line);
  }

  void write(std::ostream& out) const {
    std::size_t longest = 0;
    for (const Event& e : events_) longest = std::max(longest, e.text.size());
    const int text_x = kLeft + static_cast<int>(columns_.size()) * kLane;
    const int width = text_x + static_cast<int>(longest) * kChar + 20;
    const int height = kTop + static_cast<int>(events_.size()) * kRow + 10;
    out << fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{2}</title>\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
        "<text x=\"12\" y=\"20\" font-weight=\"bold\">{2}</text>\n",
        width, height, escaped(program_.litmus.name));
    for (std::size_t c = 0; c < columns_.size(); ++c)
      out << fmt::format(
          "<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\" fill=\"#444\">{2}</text>\n"
          "<path d=\"M{0} {3}V{4}\" stroke=\"#ccc\"/>\n",
          x(c), kTop - 14, escaped(columns_[c]), kTop - 6, height - 8);
    for (std::size_t i = 0; i < events_.size(); ++i)
      if (const Event& e = events_[i]; e.from >= 0)
        out << fmt::format("<path d=\"M{} {}L{} {}\" stroke=\"#1f6feb\" stroke-width=\"1.5\"/>\n",
                           x(events_[static_cast<std::size_t>(e.from)].column),
                           y(static_cast<std::size_t>(e.from)), x(e.column), y(i));
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const Event& e = events_[i];
      const char* const colour = e.hazard ? "#b3261e" : "#1b1f24";
      if (!e.hazard)
        out << fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/>\n", x(e.column), y(i),
                           e.from >= 0 ? "#1f6feb" : "#1b1f24");
      out << fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\"{}>{}</text>\n", text_x, y(i) + 4,
                         colour, e.hazard ? " font-weight=\"bold\"" : "", escaped(e.text));
    }
    out << "</svg>\n";
  }

 private:
  void add(const std::string& line) {
    Event e;
    const bool hazard = line.starts_with("  !! ");
    std::string who = hazard ? kMemory : line.substr(0, std::min<std::size_t>(line.size(), kWho));
    while (!who.empty() && who.back() == ' ') who.pop_back();
    if (who.empty()) who = kMemory;
    e.hazard = hazard;
    e.text = hazard ? line.substr(5) : line.size() > kWho ? line.substr(kWho) : line;
    e.column = column(who);
    if (!hazard) e.from = sent_by(e);
    events_.push_back(e);
  }

  std::size_t column(const std::string& who) {
    const auto it = std::find(columns_.begin(), columns_.end(), who);
    if (it != columns_.end()) return static_cast<std::size_t>(it - columns_.begin());
    columns_.push_back(who);
    return columns_.size() - 1;
  }

  /// "A's store to flag is at its place": the event in which A stored it. "a (node 1) is 1": the
  /// far NIC's that took it. "far nic takes …": the NIC's read of that entry.
  int sent_by(const Event& e) {
    const auto first = [&](const std::string& who, const auto& fits) {
      for (std::size_t i = 0; i < events_.size(); ++i) {
        if (columns_[events_[i].column] != who || taken(i) || !fits(events_[i].text)) continue;
        sent_.push_back(i);
        return static_cast<int>(i);
      }
      return -1;
    };
    if (const auto at = e.text.find("'s store to "); at != std::string::npos) {
      if (e.text.find("is at its place") == std::string::npos) return -1;
      const std::string word =
          short_name(e.text.substr(at + 12, e.text.find(" is at", at) - at - 12));
      return first(e.text.substr(0, at),
                   [&](const std::string& text) { return names(text, word); });
    }
    if (columns_[e.column] == "far nic") {
      const auto of = e.text.find(" of queue ");
      const std::string queue = of == std::string::npos ? "" : e.text.substr(of);
      return first("nic", [&](const std::string& text) {
        return text.starts_with("reads entry") && text.find(queue + ":") != std::string::npos;
      });
    }
    if (columns_[e.column] != kMemory) return -1;
    const std::string word = short_name(e.text.substr(0, e.text.find(" is ")));
    if (word.starts_with("completion"))
      return first("nic", [](const std::string& text) { return text.starts_with("is answered"); });
    return first("far nic", [&](const std::string& text) {
      return names(text, word) || (word.starts_with("signal") && names(text, "atomic"));
    });
  }
  bool taken(std::size_t i) const {
    return std::find(sent_.begin(), sent_.end(), i) != sent_.end();
  }

  static int x(std::size_t column) { return kLeft + static_cast<int>(column) * kLane; }
  static int y(std::size_t row) { return kTop + static_cast<int>(row) * kRow + kRow / 2; }

  const Judged& program_;
  std::vector<std::string> columns_;
  std::vector<Event> events_;
  std::vector<std::size_t> sent_;
};

}  // namespace

bool draw(std::ostream& out, const Judged& program) {
  if (program.verdict.witness.empty()) return false;
  Picture(program).write(out);
  return true;
}

}  // namespace marrow::order
