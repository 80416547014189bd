#include "constraint/left_recursion.h"

#include <algorithm>
#include <utility>

namespace thimble {
namespace {

using Op = Program::Op;

struct Edge {
  uint32_t rule;
  bool call;  ///< or entered, which does not grow the stack
};

/// The rules that a rule calls or enters before it takes a byte.
std::vector<Edge> edges_of(const Program& program, uint32_t rule, std::vector<bool>* visited) {
  std::vector<Edge> edges;
  std::vector<uint32_t> left{program.starts[rule]}, seen;
  while (!left.empty()) {
    const uint32_t at = left.back();
    left.pop_back();
    if ((*visited)[at]) continue;
    (*visited)[at] = true;
    seen.push_back(at);
    const auto [op, a, b] = program.code[at];
    if (op == Op::kCall || op == Op::kEnter) edges.push_back({a, op == Op::kCall});
    if (op == Op::kRepeat) {
      const auto [again, min, max] = program.code[at + 1];
      if (max > 0) edges.push_back({a, true});
      if (min == 0) left.push_back(b);
    }
    if (op == Op::kSplit) {
      left.push_back(a);
      left.push_back(b);
    }
  }
  for (const uint32_t at : seen) (*visited)[at] = false;
  return edges;
}

/// Strongly connected components (Tarjan, 1972), without recursion. A component gets its number
/// after all those that it leads to.
class Components {
 public:
  explicit Components(const std::vector<std::vector<Edge>>& edges)
      : edges_(edges), index_(edges.size(), 0), low_(edges.size(), 0), number_(edges.size(), 0) {
    for (uint32_t rule = 0; rule < edges.size(); ++rule) {
      if (index_[rule] == 0) visit(rule);
    }
  }

  uint32_t count() const { return count_; }
  uint32_t number(uint32_t rule) const { return number_[rule] - 1; }

 private:
  void visit(uint32_t first) {
    std::vector<std::pair<uint32_t, size_t>> path;
    const auto enter = [&](uint32_t rule) {
      index_[rule] = low_[rule] = ++next_;
      open_.push_back(rule);
      path.emplace_back(rule, 0);
    };
    enter(first);
    while (!path.empty()) {
      const uint32_t rule = path.back().first;
      if (path.back().second < edges_[rule].size()) {
        const uint32_t other = edges_[rule][path.back().second++].rule;
        if (index_[other] == 0) {
          enter(other);
        } else if (number_[other] == 0) {
          low_[rule] = std::min(low_[rule], index_[other]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) {
        const uint32_t parent = path.back().first;
        low_[parent] = std::min(low_[parent], low_[rule]);
      }
      if (low_[rule] == index_[rule]) close(rule);
    }
  }

  void close(uint32_t rule) {
    ++count_;
    uint32_t member;
    do {
      member = open_.back();
      open_.pop_back();
      number_[member] = count_;
    } while (member != rule);
  }

  const std::vector<std::vector<Edge>>& edges_;
  std::vector<uint32_t> index_, low_, number_, open_;
  uint32_t next_ = 0, count_ = 0;
};

}  // namespace

Result<std::vector<uint32_t>> rank_rules(const Program& program) {
  std::vector<bool> visited(program.code.size(), false);
  std::vector<std::vector<Edge>> edges;
  for (uint32_t rule = 0; rule < program.starts.size(); ++rule) {
    edges.push_back(edges_of(program, rule, &visited));
  }
  const Components components(edges);
  std::vector<uint32_t> ranks;
  for (uint32_t rule = 0; rule < edges.size(); ++rule) {
    for (const Edge& edge : edges[rule]) {
      if (edge.call && components.number(edge.rule) == components.number(rule)) {
        return Status::error(std::to_string(edge.rule));
      }
    }
    ranks.push_back(components.count() - components.number(rule));
  }
  return ranks;
}

}  // namespace thimble
