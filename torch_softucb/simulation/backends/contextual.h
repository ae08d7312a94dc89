// Rounds in which other items are offered every time: the round of the eager backend, with a policy's packed statistics as the
// state. Estimates of this round's candidates are computed per trajectory, vectorised over the columns of the factor; the
// decision itself is that of rounds.cpp, for a tile of trajectories at once.
#pragma once

namespace {

// policies.rows.RowLayout and policies.scales.ScaleMemory; a test compares them with the Python side
enum ScaleSlot : int64_t {
  SLOT_ANCHOR, SLOT_WEIGHT, SLOT_SUM_Y, SLOT_ENERGY, SLOT_OFFSET, SLOT_NOISE_STD, SLOT_RHO, SLOT_TOTAL, SLOT_DUE,
  SLOT_OFFSET_VARIANCE, SLOT_SUMMARY, SLOT_SUM_X = 17
};
enum Memory : int64_t { MEMORY_NONE, MEMORY_REWARD_SUMS, MEMORY_SCALES };  // native_contextual.MEMORY
enum Waiting : int64_t { WAITING_ITEM, WAITING_REWARD, WAITING_DUE, WAITING_COUNT };  // contextual_state.WAITING

template <typename F>
struct World {  // what a block is played with besides Block; trajectories outermost
  int64_t M, size, memory_size, holds, slots, fixed_delay, refresh_every;  // holds: one of Memory; slots: D + 1, 0 without delays; fixed_delay: -1 if random
  bool anchors, bernoulli, own_items;  // anchors: the first reward of a bandit is the anchor of its scales
  const F *items;             // (M, d), or (B, M, d) if every trajectory has its own items; whitened by the prior
  const F *base;              // (M) or (B, M), what the prior predicts, or null
  const F *means, *rotated_means, *drift_rate;  // (B, M), (B, M), (B); the last two null without drift
  const int32_t *candidates;  // (rounds, B, K), -1 for none
  const int64_t *delays;      // (rounds, B), or null
  double *statistics;         // (B, size): updated in place
  double *waiting;            // (B, slots, WAITING_COUNT), or null: updated in place
  F *mu_hat, *width;          // (B): largest |mu_hat| and width of the last round, for checks
};

// V = L L^T; root = L^-T. Returns false where V is not positive definite.
inline bool factorise(const double *V, double *root, double *L, int64_t d) {
  for (int64_t j = 0; j < d; ++j) {
    double top = V[j * d + j];
    for (int64_t k = 0; k < j; ++k) top -= L[j * d + k] * L[j * d + k];
    if (!(top > 0)) return false;
    L[j * d + j] = top = std::sqrt(top);
    for (int64_t i = j + 1; i < d; ++i) {
      double sum = V[i * d + j];
      for (int64_t k = 0; k < j; ++k) sum -= L[i * d + k] * L[j * d + k];
      L[i * d + j] = sum / top;
    }
  }
  std::fill(root, root + d * d, 0.0);
  for (int64_t j = 0; j < d; ++j) for (int64_t i = j; i < d; ++i) {
    double sum = i == j ? 1.0 : 0.0;
    for (int64_t k = j; k < i; ++k) sum -= L[i * d + k] * root[j * d + k];
    root[j * d + i] = sum / L[i * d + i];
  }
  return true;
}

template <typename F, bool MASKED>
struct ContextualTile : Tile<F, true, MASKED> {
  using Base = Tile<F, true, MASKED>;
  using Base::s; using Base::K; using Base::d; using Base::means; using Base::allowed; using Base::mu; using Base::width;
  using Base::S; using Base::w2; using Base::best; using Base::beta; using Base::arm; using Base::best_arm; using Base::lane_of; using Base::top;
  using Base::reward; using Base::gamma; using Base::fresh; using Base::term;
  static constexpr int64_t W = 64 / sizeof(F), AT_ONCE = 8;
  typedef F Vec __attribute__((vector_size(64), aligned(64)));
  const World<F> &world;
  const int64_t columns;  // vectors per row of the table: root, theta, direction of the offset
  static constexpr int64_t ROW = 8;  // doubles per vector
  typedef double Row __attribute__((vector_size(64), aligned(64), may_alias));
  static Row &row_at(double *at) { return *reinterpret_cast<Row *>(at); }
  const int64_t P;  // d, rounded up to whole vectors: what a block changes is kept in rows of this length
  std::vector<double> scratch, local;
  std::vector<F> table_memory;
  F *table, *of_root;  // of_root: 1 in the columns of root, else 0
  double *u, *w, *L, *x;
  alignas(64) F unit[LANES], spread[LANES], anchor[LANES];  // of widths, of the offset, of means
  bool sound = true;

  ContextualTile(const Block<F> &block, const World<F> &of)
      : Base(block), world(of), columns((block.d + 2 + W - 1) / W), P((block.d + ROW - 1) / ROW * ROW),
        scratch(block.d * block.d + 3 * P + ROW), local(LANES * (2 * block.d + 2) * P + ROW),
        table_memory((block.d + 1) * columns * W + W) {
    const auto aligned = [](auto *from) { return reinterpret_cast<decltype(from)>((reinterpret_cast<uintptr_t>(from) + 63) / 64 * 64); };
    table = aligned(table_memory.data());
    of_root = table + d * columns * W;
    for (int64_t j = 0; j < columns * W; ++j) of_root[j] = j < d ? F(1) : F(0);
    u = aligned(scratch.data()); w = u + P; x = w + P; L = x + P;
    std::fill(u, u + 3 * P, 0.0);
    first_local = aligned(local.data());
  }

  // per trajectory: root (d, P), what the block has added to V (d, P) and to b (P), and theta_hat (P)
  double *first_local;
  double *root_of(int64_t l) const { return first_local + l * (2 * d + 2) * P; }
  double *added_of(int64_t l) const { return root_of(l) + d * P; }
  double *moment_of(int64_t l) const { return root_of(l) + 2 * d * P; }
  double *theta_of(int64_t l) const { return root_of(l) + (2 * d + 1) * P; }

  void load(int64_t l) {  // copy a trajectory's factor, and solve for theta_hat = root root^T b, without the scales' offset
    const double *row = row_of(l), *packed = row + d * d, *b = row + 2 * d * d, *memory = b + d;
    double *root = root_of(l), *theta = theta_of(l);
    std::fill(root, root + (2 * d + 2) * P, 0.0);
    const bool scaled = world.holds == MEMORY_SCALES;
    std::fill(w, w + P, 0.0);
    for (int64_t i = 0; i < d; ++i) {
      const double of = b[i] - (scaled ? memory[SLOT_OFFSET] * memory[SLOT_SUM_X + i] : 0.0);
      for (int64_t j = 0; j < d; ++j) { root[i * P + j] = packed[i * d + j]; w[j] += packed[i * d + j] * of; }
    }
    for (int64_t i = 0; i < d; ++i) for (int64_t j = 0; j < d; ++j) theta[i] += root[i * P + j] * w[j];
    const bool known = !scaled || memory[SLOT_NOISE_STD] > 0;
    if (!known) std::fill(theta, theta + P, 0.0);
    unit[l] = scaled && known ? F(memory[SLOT_NOISE_STD]) : F(1);
    spread[l] = scaled ? F(memory[SLOT_OFFSET_VARIANCE]) : F(0);
    anchor[l] = scaled ? F(memory[SLOT_ANCHOR] + memory[SLOT_OFFSET]) : F(0);
  }

  void save(int64_t l) {
    double *row = row_of(l), *packed = row + d * d, *b = row + 2 * d * d;
    const double *root = root_of(l), *added = added_of(l), *moment = moment_of(l);
    for (int64_t i = 0; i < d; ++i) {
      b[i] += moment[i];
      for (int64_t j = 0; j < d; ++j) { packed[i * d + j] = root[i * P + j]; row[i * d + j] += added[i * P + j]; }
    }
  }

  double *row_of(int64_t l) const { return world.statistics + lane_of[l] * world.size; }
  double *memory_of(double *row) const { return row + 2 * d * d + d; }
  double &count_of(double *row) const { return row[world.size - 2]; }
  const F *item(int64_t l, int64_t id) const { return world.items + ((world.own_items ? lane_of[l] * world.M : 0) + id) * d; }
  F prior_mean(int64_t l, int64_t id) const {
    return world.base == nullptr ? F(0) : world.base[(world.own_items ? lane_of[l] * world.M : 0) + id];
  }

  static F total_of(Vec v) {  // in halves: a loop over the entries would be compiled to scalar additions
    typedef F Half __attribute__((vector_size(32)));
    typedef F Quarter __attribute__((vector_size(16)));
    Half halves[2];
    __builtin_memcpy(halves, &v, sizeof v);
    halves[0] += halves[1];
    Quarter quarters[2];
    __builtin_memcpy(quarters, halves, sizeof quarters);
    quarters[0] += quarters[1];
    F total = 0;
    for (int64_t j = 0; j < W / 4; ++j) total += quarters[0][j];
    return total;
  }

  void fill(int64_t t, int64_t l) {  // x . theta, |root^T x|^2 and true means of this round's candidates of one trajectory
    const double *memory = memory_of(row_of(l)), *root = root_of(l), *theta = theta_of(l);
    const bool scaled = world.holds == MEMORY_SCALES;
    const int64_t stride = columns * W;
    for (int64_t i = 0; i < d; ++i) {
      F *to = table + i * stride;
      for (int64_t j = 0; j < d; ++j) to[j] = F(root[i * P + j]);
      to[d] = F(theta[i]);
      to[d + 1] = scaled ? F(memory[SLOT_SUM_X + d + i]) : F(0);
    }
    if (s.rule == THOMPSON) for (int64_t i = 0; i < d; ++i) {
      double step = 0;
      for (int64_t j = 0; j < d; ++j) step += root[i * P + j] * s.normals[(t * d + j) * s.B + lane_of[l]];
      table[i * stride + d] = F(theta[i] + double(beta[l]) * step);
    }
    const int32_t *ids = world.candidates + (t * s.B + lane_of[l]) * K;
    for (int64_t first = 0; first < K; first += AT_ONCE) {
      const F *rows[AT_ONCE];
      for (int64_t c = 0; c < AT_ONCE; ++c) {
        const int32_t id = ids[std::min(first + c, K - 1)];
        rows[c] = item(l, id < 0 ? 0 : id);
      }
      F square[AT_ONCE] = {}, mean[AT_ONCE] = {}, moved[AT_ONCE] = {};
      for (int64_t v = 0; v < columns; ++v) {
        Vec sum[AT_ONCE] = {};
        const F *from = table + v * W;
        for (int64_t i = 0; i < d; ++i, from += stride) {
          const Vec r = *reinterpret_cast<const Vec *>(from);
          for (int64_t c = 0; c < AT_ONCE; ++c) sum[c] += rows[c][i] * r;
        }
        const Vec own = *reinterpret_cast<const Vec *>(of_root + v * W);
        for (int64_t c = 0; c < AT_ONCE; ++c) square[c] += total_of(sum[c] * sum[c] * own);
        const int64_t at = d - v * W;  // position of theta; the direction of the offset follows
        if (at < -1 || at >= W) continue;
        alignas(64) F out[AT_ONCE][W];
        for (int64_t c = 0; c < AT_ONCE; ++c) __builtin_memcpy(out[c], &sum[c], sizeof sum[c]);
        if (at >= 0) for (int64_t c = 0; c < AT_ONCE; ++c) mean[c] = out[c][at];
        if (at + 1 < W) for (int64_t c = 0; c < AT_ONCE; ++c) moved[c] = out[c][at + 1];
      }
      const int64_t count = std::min(AT_ONCE, K - first);
      for (int64_t c = 0; c < count; ++c) {
        const int64_t at = (first + c) * LANES + l;
        mu[at] = mean[c];
        w2[at] = square[c];
        if (scaled) S[at] = 1 - moved[c];
      }
    }
    const F *true_means = world.means + lane_of[l] * world.M;
    for (int64_t k = 0; k < K; ++k) means[k * LANES + l] = true_means[ids[k] < 0 ? 0 : ids[k]];
    if (world.rotated_means != nullptr) {
      const F *turned = world.rotated_means + lane_of[l] * world.M;
      const F angle = world.drift_rate[lane_of[l]] * F(s.start + t), c = std::cos(angle), q = std::sin(angle);
      for (int64_t k = 0; k < K; ++k) means[k * LANES + l] = c * means[k * LANES + l] + q * turned[ids[k] < 0 ? 0 : ids[k]];
    }
    if (world.base != nullptr) for (int64_t k = 0; k < K; ++k) mu[k * LANES + l] += prior_mean(l, ids[k] < 0 ? 0 : ids[k]);
    if (MASKED) for (int64_t k = 0; k < K; ++k) {
      allowed[k * LANES + l] = ids[k] < 0 ? F(0) : F(1);
      if (ids[k] < 0) means[k * LANES + l] = 0;
    }
  }

  void finish(int64_t lanes) {  // widths, means in the unit of the rewards, and the best candidate
    for (int64_t l = lanes; l < LANES; ++l) {  // unused lanes repeat the last trajectory
      for (int64_t k = 0; k < K; ++k) for (F *of : {mu, w2, S, means, allowed}) of[k * LANES + l] = of[k * LANES + lanes - 1];
      unit[l] = unit[lanes - 1]; spread[l] = spread[lanes - 1]; anchor[l] = anchor[lanes - 1];
    }
    if (world.holds == MEMORY_SCALES) for (int64_t i = 0; i < K; ++i)
      EACH_LANE w2[i * LANES + l] += S[i * LANES + l] * S[i * LANES + l] * spread[l];
    EACH_LANE best[l] = std::numeric_limits<F>::lowest();
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      mu[k * LANES + l] += anchor[l];
      width[k * LANES + l] = unit[l] * std::sqrt(w2[k * LANES + l]);
      best[l] = this->is_allowed(k, l) > 0 && means[k * LANES + l] > best[l] ? means[k * LANES + l] : best[l];
    }
    if (s.scores != nullptr) this->find_best();
  }

  void thompson() {  // mu holds the index under a theta drawn from the posterior
    EACH_LANE top[l] = std::numeric_limits<F>::lowest();
    for (int64_t l = 0; l < LANES; ++l) {
      arm[l] = 0;
      for (int64_t k = 0; k < K; ++k)
        if (this->is_allowed(k, l) > 0 && mu[k * LANES + l] > top[l]) { top[l] = mu[k * LANES + l]; arm[l] = k; }
      reward[l] = best[l] - means[arm[l] * LANES + l];
    }
  }

  void forget(int64_t l) {  // policies.rows.forget
    if (s.discount == 1) return;
    save(l);
    double *row = row_of(l), *memory = memory_of(row), *b = row + 2 * d * d;
    const double keep = s.discount, ridge = (1 - keep) * (world.holds == MEMORY_SCALES ? memory[SLOT_RHO] : s.ridge_alpha);
    for (int64_t i = 0; i < d * d; ++i) row[i] *= keep;
    for (int64_t i = 0; i < d; ++i) { row[i * d + i] += ridge; b[i] *= keep; }
    if (world.holds == MEMORY_REWARD_SUMS) { memory[0] *= keep; memory[1] *= keep; }
    if (world.holds == MEMORY_SCALES) {
      for (int64_t i = SLOT_WEIGHT; i <= SLOT_ENERGY; ++i) memory[i] *= keep;
      for (int64_t i = 0; i < d; ++i) memory[SLOT_SUM_X + i] *= keep;
    }
    sound &= factorise(row, row + d * d, L, d);
    load(l);
  }

  void observe(int64_t l, int64_t id, F value) {  // policies.rows.observe_one, and the sums in the memory
    double *row = row_of(l), *root = root_of(l), *added = added_of(l), *moment = moment_of(l), *theta = theta_of(l);
    double *memory = memory_of(row), length = 0, q = 1, error = 0;
    const F *features = item(l, id);
    for (int64_t i = 0; i < d; ++i) { x[i] = features[i]; length += x[i] * x[i]; error += x[i] * theta[i]; }
    double y = double(value) - double(prior_mean(l, id));
    if (world.holds == MEMORY_SCALES) {
      if (world.anchors && memory[SLOT_TOTAL] == 0) {  // policies.scales.anchored
        const double rho = length > 0 ? length : 1.0;
        memory[SLOT_ANCHOR] = y;
        memory[SLOT_RHO] = rho;
        for (int64_t i = 0; i < d; ++i) for (int64_t j = 0; j < d; ++j) {
          row[i * d + j] = i == j ? rho : 0.0;
          root[i * P + j] = i == j ? 1 / std::sqrt(rho) : 0.0;
        }
      }
      y -= memory[SLOT_ANCHOR];
      memory[SLOT_WEIGHT] += 1; memory[SLOT_SUM_Y] += y; memory[SLOT_ENERGY] += y * y; memory[SLOT_TOTAL] += 1;
      for (int64_t i = 0; i < d; ++i) memory[SLOT_SUM_X + i] += x[i];
      anchor[l] = F(memory[SLOT_ANCHOR] + memory[SLOT_OFFSET]);
      error = memory[SLOT_NOISE_STD] > 0 ? y - memory[SLOT_OFFSET] - error : 0.0;
    } else {
      if (world.holds == MEMORY_REWARD_SUMS) { memory[0] += 1; memory[1] += y * y; }
      error = y - error;
    }
    for (int64_t j = 0; j < P; j += ROW) {  // root^T x, in registers
      Row sum = {};
      for (int64_t i = 0; i < d; ++i) sum += x[i] * row_at(root + i * P + j);
      row_at(w + j) = sum;
    }
    for (int64_t i = 0; i < d; ++i) {
      moment[i] += x[i] * y;
      for (int64_t j = 0; j < P; j += ROW) row_at(added + i * P + j) += x[i] * row_at(x + j);
    }
    for (int64_t j = 0; j < P; ++j) q += w[j] * w[j];
    const double step = 1 / (q + std::sqrt(q)), gain = error / q;
    for (int64_t i = 0; i < d; ++i) {
      Row total = {};
      for (int64_t j = 0; j < P; j += ROW) total += row_at(root + i * P + j) * row_at(w + j);  // V^-1 x
      double sum = 0;
      for (int64_t j = 0; j < ROW; ++j) sum += total[j];
      theta[i] += gain * sum;
      sum *= step;
      for (int64_t j = 0; j < P; j += ROW) row_at(root + i * P + j) -= sum * row_at(w + j);
    }
    count_of(row) += 1;
    if (int64_t(count_of(row)) % world.refresh_every == 0) {
      save(l);
      sound &= factorise(row, row + d * d, L, d);
      load(l);
    }
  }

  void learn(int64_t t, int64_t l) {  // what arrives after this round, the oldest first
    const int64_t at = arm[l] * LANES + l, now = s.start + t;
    // never -1, unless probabilities are NaN: then the regret is, too, and the caller raises
    const int64_t id = std::max<int64_t>(0, world.candidates[(t * s.B + lane_of[l]) * K + arm[l]]);
    const F noise = s.noise[t * s.B + lane_of[l]];
    const F value = world.bernoulli ? (noise < means[at] ? F(1) : F(0)) : means[at] + noise;
    if (world.slots == 0) {
      forget(l);
      observe(l, id, value);
      return;
    }
    double *waiting = world.waiting + lane_of[l] * world.slots * WAITING_COUNT;
    const int64_t late = world.delays == nullptr ? world.fixed_delay : world.delays[t * s.B + lane_of[l]];
    double *own = waiting + now % world.slots * WAITING_COUNT;
    own[WAITING_ITEM] = double(id); own[WAITING_REWARD] = value; own[WAITING_DUE] = double(now + 1 + late);
    bool first = true;
    const int64_t oldest = now + 1 - world.slots, newest = world.delays == nullptr ? oldest : now;
    for (int64_t played = std::max<int64_t>(0, oldest); played <= newest; ++played) {
      const double *due = waiting + played % world.slots * WAITING_COUNT;
      if (due[WAITING_DUE] != double(now + 1)) continue;
      if (first) forget(l);
      first = false;
      observe(l, int64_t(due[WAITING_ITEM]), F(due[WAITING_REWARD]));
    }
  }

  void play(int64_t start, int64_t lanes) {
    for (int64_t l = 0; l < LANES; ++l) lane_of[l] = start + (l < lanes ? l : lanes - 1);
    for (int64_t l = 0; l < LANES; ++l) gamma[l] = F(row_of(l)[world.size - 1]);
    for (int64_t l = 0; l < lanes; ++l) load(l);
    if (s.terms != nullptr) for (int64_t i = 0; i < TERM_COUNT; ++i) this->fetch(term[i], s.terms + i * s.B, 1);
    for (int64_t t = 0; t < s.rounds; ++t) {
      for (int64_t l = 0; l < LANES; ++l) beta[l] = s.scale[t * s.scale_round + lane_of[l] * s.scale_lane];
      for (int64_t l = 0; l < lanes; ++l) fill(t, l);
      finish(lanes);
      if (s.rule == THOMPSON) {
        thompson();
      } else {
        s.rule == GREEDY ? this->greedy() : this->soft();
        this->draw(t);
        if (s.scores != nullptr) this->write_scores(t, lanes);
      }
      for (int64_t l = 0; l < lanes; ++l) s.regret[t * s.B + lane_of[l]] = reward[l];
      if (t + 1 == s.rounds) report(lanes);
      for (int64_t l = 0; l < lanes; ++l) learn(t, l);
      if (s.rule == SOFT_LAGGED) EACH_LANE gamma[l] = fresh[l];
    }
    for (int64_t l = 0; l < lanes; ++l) save(l);
    if (s.rule == SOFT_LAGGED) for (int64_t l = 0; l < lanes; ++l) row_of(l)[world.size - 1] = gamma[l];
    if (s.terms != nullptr) for (int64_t i = 0; i < TERM_COUNT; ++i) this->store(s.terms + i * s.B, term[i], 1, lanes);
    // a width of -1 is reported by ContextualState.check_estimates
    if (!sound) for (int64_t l = 0; l < lanes; ++l) world.width[lane_of[l]] = -1;
    sound = true;
  }

  void report(int64_t lanes) {
    for (int64_t l = 0; l < lanes; ++l) {
      F largest = 0, widest = 0;
      for (int64_t k = 0; k < K; ++k) {
        const F size = std::abs(mu[k * LANES + l]), wide = width[k * LANES + l];
        largest = size > largest ? size : largest;
        widest = wide > widest ? wide : widest;
      }
      world.mu_hat[lane_of[l]] = largest;
      world.width[lane_of[l]] = widest;
    }
  }
};

template <typename F, bool MASKED>
void play_contextual(const Block<F> &s, const World<F> &world) {
  const int64_t tiles = (s.B + LANES - 1) / LANES;
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min<int64_t>(tiles, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    ContextualTile<F, MASKED> tile(s, world);
    for (int64_t i = next++; i < tiles; i = next++) tile.play(i * LANES, std::min(LANES, s.B - i * LANES));
  });
}

// candidate_draws.draw_candidates without weights: Floyd's algorithm with the numbers of rng.uniforms.
inline void draw_subsets(const int64_t *seeds, const int64_t *available, const int64_t *order, int64_t M, int64_t B, int64_t K,
                         int64_t start, int64_t begin, int64_t end, int32_t *out) {
  constexpr uint64_t GOLDEN = 0x9E3779B97F4A7C15ULL;
  std::vector<int64_t> chosen_in(M, -1);  // the last set that has this number
  std::vector<int32_t> picks(K);
  for (int64_t set = begin; set < end; ++set) {
    const int64_t round = set / B, b = set % B, count = available[b], left = count - K;
    int32_t *to = out + set * K;
    if (left < 0) {
      for (int64_t i = 0; i < K; ++i) to[i] = i < count ? int32_t(order != nullptr ? order[b * M + i] : i) : -1;
      continue;
    }
    const uint64_t seed = uint64_t(seeds[b]), position = uint64_t(start + round) * uint64_t(K) + 1;
    for (int64_t i = 0; i < K; ++i) {
      uint64_t z = seed + (position + uint64_t(i)) * GOLDEN;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
      z ^= z >> 31;
      picks[i] = int32_t(double(int64_t(z >> 11)) * 0x1p-53 * double(left + i + 1));
    }
    for (int64_t i = 0; i < K; ++i) {
      const int32_t pick = chosen_in[picks[i]] == set ? int32_t(left + i) : picks[i];
      chosen_in[pick] = set;
      to[i] = pick;
    }
    if (order != nullptr) for (int64_t i = 0; i < K; ++i) to[i] = int32_t(order[b * M + to[i]]);
  }
}

}  // namespace
