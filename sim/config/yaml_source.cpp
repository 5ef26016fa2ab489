#include "sim/config/yaml_source.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <unordered_map>

#include "models/common/error.h"
#include "sim/config/parameters.h"

namespace marrow::config {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxNodes = 1'000'000;  // aliases counted as often as they are used

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 60;
  return text.size() <= kShown ? fmt::format("\"{}\"", text)
                               : fmt::format("\"{}...\"", text.substr(0, kShown));
}

std::string about(const std::string& path, const std::string& problem) {
  return path.empty() ? problem : path + ": " + problem;
}

std::string listed(std::initializer_list<std::string_view> words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string read_file(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw InputError(file, "is a directory", "name a YAML file");
  }
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw InputError(file, fmt::format("cannot be opened: {}", std::strerror(errno)),
                     "check the name and its permissions");
  }
  std::string text;
  std::array<char, 16384> block;
  do {
    stream.read(block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
  } while (stream && text.size() <= kMaxFileBytes);
  if (stream.bad()) throw InputError(file, "cannot be read to its end", "check the disk");
  if (text.size() > kMaxFileBytes) {
    throw InputError(file, "is larger than 4 MiB", "name a YAML file; large data goes into traces");
  }
  return text;
}

// yaml-cpp takes byte 4 for the end of the file and would drop the rest without a word.
void refuse_control_characters(const std::string& text, const std::string& name) {
  int line = 1;
  for (const char c : text) {
    if (c == '\n') ++line;
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f) {
      throw InputError(fmt::format("{}:{}", name, line),
                       fmt::format("control character 0x{:02x}", byte),
                       "write the file as plain UTF-8 text");
    }
  }
}

}  // namespace

struct YamlNode::Raw {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Child {
    std::string key;  // empty in a list
    int line = 0;     // of the key, or of the item
    std::shared_ptr<const Raw> node;
  };

  Kind kind = Kind::kNull;
  int line = 1;
  std::string scalar;
  std::vector<Child> children;
  std::size_t nodes = 1;   // of this tree, aliases counted as often as they are used
  std::size_t height = 0;  // how many lists and maps are nested in it, itself included

  std::string_view kind_name() const {
    switch (kind) {
      case Kind::kNull:
        return "empty";
      case Kind::kScalar:
        return "a single value";
      case Kind::kList:
        return "a list";
      case Kind::kMap:
        return "a map";
    }
    return "";
  }
};

struct YamlNode::Document {
  std::string file;
  std::shared_ptr<const Raw> root;
};

// Builds the tree from parser events rather than from YAML::Node, which forgets duplicate keys and
// the line of a key, and lets nesting and aliases grow without bound.
class YamlNode::Builder : public YAML::EventHandler {
 public:
  explicit Builder(const std::string& name) : name_(name) {}

  std::shared_ptr<const Raw> take() {
    return root_ ? std::move(root_) : std::make_shared<const Raw>();
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      throw InputError(place(line_of(mark)), "a second YAML document", "keep one document a file");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(remember(make(Raw::Kind::kNull, mark), anchor), line_of(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    auto raw = make(Raw::Kind::kScalar, mark);
    raw->scalar = value;
    add(remember(std::move(raw), anchor), line_of(mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      throw InputError(place(line_of(mark)), "an alias inside the value that it names",
                       "write the value out");
    }
    add(known->second, line_of(mark));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(Raw::Kind::kList, mark, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(Raw::Kind::kMap, mark, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

 private:
  struct Frame {
    std::shared_ptr<Raw> node;
    YAML::anchor_t anchor = 0;
    std::optional<std::pair<std::string, int>> key;  // waits for its value
    std::unordered_map<std::string, int> lines;      // of the keys so far
  };

  static int line_of(const YAML::Mark& mark) { return std::max(mark.line, 0) + 1; }
  std::string place(int line) const { return fmt::format("{}:{}", name_, line); }

  static std::shared_ptr<Raw> make(Raw::Kind kind, const YAML::Mark& mark) {
    auto raw = std::make_shared<Raw>();
    raw->kind = kind;
    raw->line = line_of(mark);
    return raw;
  }

  std::shared_ptr<const Raw> remember(std::shared_ptr<Raw> raw, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = raw;
    return raw;
  }

  void start(Raw::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (waits_for_key()) refuse_key(line_of(mark));
    refuse_depth(frames_.size() + 1, line_of(mark));
    frames_.push_back({make(kind, mark), anchor, std::nullopt, {}});
    frames_.back().node->height = 1;
  }

  void end() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    const int line = frame.node->line;
    add(remember(std::move(frame.node), frame.anchor), line);
  }

  void add(std::shared_ptr<const Raw> child, int line) {
    if (frames_.empty()) {
      root_ = std::move(child);
      return;
    }
    if (waits_for_key()) {
      add_key(*child, line);
      return;
    }
    Frame& frame = frames_.back();
    refuse_depth(frames_.size() + child->height, line);
    frame.node->height = std::max(frame.node->height, child->height + 1);
    frame.node->nodes += child->nodes;
    if (frame.node->nodes > kMaxNodes) {
      throw InputError(place(line),
                       fmt::format("more than {} values, aliases multiplied out", kMaxNodes),
                       "use fewer aliases or split the file");
    }
    if (frame.key) {
      frame.node->children.push_back(
          {std::move(frame.key->first), frame.key->second, std::move(child)});
      frame.key.reset();
    } else {
      frame.node->children.push_back({"", line, std::move(child)});
    }
  }

  void add_key(const Raw& key, int line) {
    if (key.kind != Raw::Kind::kScalar || key.scalar.empty()) refuse_key(line);
    Frame& frame = frames_.back();
    const auto [first, is_new] = frame.lines.emplace(key.scalar, line);
    if (!is_new) {
      throw InputError(
          place(line),
          fmt::format("{}: duplicate key, first given on line {}", key.scalar, first->second),
          "keep one of them");
    }
    frame.key.emplace(key.scalar, line);
  }

  bool waits_for_key() const {
    return !frames_.empty() && frames_.back().node->kind == Raw::Kind::kMap && !frames_.back().key;
  }

  void refuse_depth(std::size_t depth, int line) const {
    if (depth > kMaxDepth) {
      throw InputError(place(line), fmt::format("nested deeper than {} levels", kMaxDepth),
                       "check the brackets and the indentation");
    }
  }

  [[noreturn]] void refuse_key(int line) const {
    throw InputError(place(line), "a key that is not a word",
                     "write \"key: value\", and close every bracket");
  }

  const std::string& name_;
  int documents_ = 0;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, std::shared_ptr<const Raw>> anchors_;
  std::shared_ptr<const Raw> root_;
};

YamlNode::YamlNode(std::shared_ptr<const Document> document, const Raw* raw, int line,
                   std::string path)
    : document_(std::move(document)), raw_(raw), line_(line), path_(std::move(path)) {}

YamlNode YamlNode::open(const std::string& file) { return parse(read_file(file), file); }

YamlNode YamlNode::parse(const std::string& text, const std::string& name) {
  refuse_control_characters(text, name);
  Builder builder(name);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    throw InputError(
        fmt::format("{}:{}", name, std::max(error.mark.line, 0) + 1),
        fmt::format("YAML syntax, column {}: {}", std::max(error.mark.column, 0) + 1, error.msg),
        "check indentation, quotes and brackets up to there");
  }
  auto document = std::make_shared<Document>(Document{name, builder.take()});
  const Raw* root = document->root.get();
  return {std::move(document), root, root->line, ""};
}

std::string YamlNode::place() const { return fmt::format("{}:{}", document_->file, line_); }
const std::string& YamlNode::file() const { return document_->file; }

bool YamlNode::is_map() const { return raw_->kind == Raw::Kind::kMap; }
bool YamlNode::is_list() const { return raw_->kind == Raw::Kind::kList; }
bool YamlNode::is_scalar() const { return raw_->kind == Raw::Kind::kScalar; }
bool YamlNode::is_null() const { return raw_->kind == Raw::Kind::kNull; }

void YamlNode::fail(const std::string& problem, const std::string& mend) const {
  throw InputError(place(), about(path_, problem), mend);
}

void YamlNode::expect_map() const {
  if (!is_map()) {
    fail(fmt::format("is {}, not a map", raw_->kind_name()), "write \"key: value\" lines here");
  }
}

std::optional<YamlNode> YamlNode::find(std::string_view key) const {
  expect_map();
  for (const Raw::Child& child : raw_->children) {
    if (child.key == key) {
      return YamlNode(document_, child.node.get(), child.line,
                      path_.empty() ? child.key : path_ + "." + child.key);
    }
  }
  return std::nullopt;
}

bool YamlNode::has(std::string_view key) const { return find(key).has_value(); }

YamlNode YamlNode::at(std::string_view key) const {
  if (auto found = find(key)) return *std::move(found);
  fail(fmt::format("no key \"{}\"", key), fmt::format("add \"{}: ...\" here", key));
}

std::string YamlNode::scalar(std::string_view wanted) const {
  if (is_null() || (is_scalar() && raw_->scalar.empty())) {
    fail("is empty", fmt::format("write {}", wanted));
  }
  if (!is_scalar()) {
    fail(fmt::format("is {}, not {}", raw_->kind_name(), wanted), fmt::format("write {}", wanted));
  }
  return raw_->scalar;
}

std::string YamlNode::text() const { return scalar("a text"); }

std::string YamlNode::one_of(std::initializer_list<std::string_view> allowed) const {
  std::string word = scalar("one of " + listed(allowed));
  if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return word;
  const std::string near = nearest(word, std::span(allowed.begin(), allowed.size()));
  fail(in_quotes(word) + " is not known here",
       near.empty() ? "write one of " + listed(allowed)
                    : fmt::format("did you mean \"{}\"? Known: {}", near, listed(allowed)));
}

double YamlNode::number(double min, double max) const {
  const double value = parse_number(scalar("a number"), place(), path_);
  if (value < min || value > max) {
    fail(fmt::format("{} is out of range", value),
         fmt::format("write a number: {}", range_text(min, max)));
  }
  return value;
}

std::int64_t YamlNode::integer(std::int64_t min, std::int64_t max) const {
  const std::string word = scalar("a whole number");
  std::string_view digits = word;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  int base = 10;
  if (digits.starts_with("0x") && !digits.starts_with("0x-")) {
    digits.remove_prefix(2);
    base = 16;
  }
  std::int64_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), last, value, base);
  if (error == std::errc::invalid_argument || stop != last) {
    fail(in_quotes(word) + " is not a whole number",
         "write digits alone, without unit, point or exponent");
  }
  if (error != std::errc{} || value < min || value > max) {
    fail(fmt::format("{} is out of range", word),
         fmt::format("write a whole number: {} to {}", min, max));
  }
  return value;
}

bool YamlNode::boolean() const {
  const std::string word = scalar("true or false");
  if (word != "true" && word != "false") {
    fail(in_quotes(word) + " is neither true nor false", "write true or false");
  }
  return word == "true";
}

std::vector<YamlNode> YamlNode::items() const {
  if (!is_list()) {
    fail(fmt::format("is {}, not a list", raw_->kind_name()),
         "write [a, b] or lines that begin with \"- \"");
  }
  std::vector<YamlNode> result;
  result.reserve(raw_->children.size());
  for (const Raw::Child& child : raw_->children) {
    result.push_back(YamlNode(document_, child.node.get(), child.line,
                              fmt::format("{}[{}]", path_, result.size())));
  }
  return result;
}

std::vector<YamlNode> YamlNode::one_or_more() const {
  return is_list() ? items() : std::vector<YamlNode>{*this};
}

std::vector<std::pair<std::string, YamlNode>> YamlNode::entries() const {
  expect_map();
  std::vector<std::pair<std::string, YamlNode>> result;
  result.reserve(raw_->children.size());
  for (const Raw::Child& child : raw_->children) {
    result.emplace_back(child.key, YamlNode(document_, child.node.get(), child.line,
                                            path_.empty() ? child.key : path_ + "." + child.key));
  }
  return result;
}

void YamlNode::only(std::initializer_list<std::string_view> allowed) const {
  for (const auto& [key, child] : entries()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    std::string mend;
    if (key.find(':') != std::string::npos) mend = "a colon needs a space after it. ";
    const std::string near = nearest(key, std::span(allowed.begin(), allowed.size()));
    if (!near.empty()) mend += fmt::format("did you mean \"{}\"? ", near);
    child.fail("unknown key", mend + "Known: " + listed(allowed));
  }
}

double parse_number(std::string_view text, const std::string& place, const std::string& key) {
  const auto fail = [&](const std::string& problem, const std::string& mend) {
    throw InputError(place, about(key, problem), mend);
  };
  std::string_view digits = text;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  if (digits.empty()) fail("is empty", "write a number");
  double value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), last, value);
  if (error == std::errc::invalid_argument)
    fail(in_quotes(text) + " is not a number", "write a number");
  if (error != std::errc{} || !std::isfinite(value)) {
    fail(in_quotes(text) + " is not a finite number of usual size", "write a finite number");
  }
  if (stop != last) {
    fail(in_quotes(text) + " is a number with more text behind it",
         "write the number alone, the unit is in the key");
  }
  return value;
}

std::string range_text(double min, double max) {
  const bool low = std::isfinite(min);
  const bool high = std::isfinite(max);
  if (low && high) return fmt::format("{} to {}", min, max);
  if (low) return fmt::format("at least {}", min);
  return high ? fmt::format("at most {}", max) : "any";
}

}  // namespace marrow::config
