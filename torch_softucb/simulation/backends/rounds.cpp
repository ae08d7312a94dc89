// Plays a block of rounds with fixed arms in one call: the round of eager.py, arranged for the CPU's caches.
//
// A tile of LANES trajectories is copied into contiguous memory, played to the end of the block and copied back. Every inner
// loop runs over the lanes. The eager backend is the reference; the tests compare every policy with it.
//
// The enums below give the order of the lists that native.py passes in; a test compares them with the Python side.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "scales.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

namespace {

constexpr int64_t LANES = 16;
constexpr float SMALLEST = 1e-35f;  // functional.softmax.SMALLEST
enum Rule : int64_t { SOFT_CURRENT, SOFT_LAGGED, SOFT_SMOOTH, GREEDY, THOMPSON, RULES };
const char *const RULE_NAMES[RULES] = {"soft_current", "soft_lagged", "soft_smooth", "greedy", "thompson"};
enum StateField : size_t {  // PlayState; the kernel does not use the last three
  MU_HAT, WIDTH_SQ, ROOT, GAMMA, RUNNING_SUMS, V_MATRIX, B_VECTOR, ARM_SUMS, SCALES, OFFSET_WIDTH_SQ, MEMORY,
  NOISE_KEY, ACTION_KEY, STATE_FIELDS
};
enum ProblemField : size_t { ARMS, MEANS, BEST, MASK, ROTATED_MEANS, DRIFT_RATE, PROBLEM_FIELDS };  // KernelProblem
enum Setting : size_t { ODDS, SMOOTHING, EPSILON, DISCOUNT, RIDGE_ALPHA, SETTINGS };  // KernelSettings
enum OutputField : size_t { REGRET, TERMS, SCORES, OUTPUT_FIELDS };  // KernelOutputs
enum WorldField : size_t {  // KernelWorld
  ITEMS, ITEM_MEANS, ITEM_BASE, ITEM_ROTATED, ITEM_DRIFT_RATE, CANDIDATES, DELAYS, WORLD_FIELDS
};
enum Shape : size_t {  // KernelShape
  SHAPE_MEMORY, SHAPE_MEMORY_SIZE, SHAPE_SLOTS, SHAPE_FIXED_DELAY, SHAPE_REFRESH_EVERY, SHAPE_ANCHORS, SHAPE_BERNOULLI,
  SHAPE_FIELDS
};
enum Term : int64_t { TERM_REWARD, TERM_PENALTY, TERM_VALUE, TERM_COUNT };  // GradientTerms
enum Sum : int64_t { SUM_NUM_OBSERVATIONS, SUM_RESIDUAL_SUM, SUM_LOG_DET, SUM_SUM_OF_SQUARES, SUM_COUNT };  // RUNNING_SUMS
enum Scale : int64_t { SCALE_ANCHOR, SCALE_OFFSET, SCALE_NOISE_STD, SCALE_RHO, SCALE_COUNT = 11 };  // simulation.scales
enum Score : int64_t {  // trajectory.SCORES
  SCORE_PRESENT, SCORE_SCORE, SCORE_BEST_PROB, SCORE_BEST_INDEX, SCORE_BEST_WIDTH, SCORE_MEAN_WIDTH, SCORE_COVERAGE,
  SCORE_DELTA_PRESENT, SCORE_DELTA_SCORE, SCORE_REWARD_SLOPE, SCORE_SUM_WIDTH, SCORE_COUNT
};

#define EACH_LANE _Pragma("omp simd") for (int64_t l = 0; l < LANES; ++l)

template <typename F>
struct Block {  // the arguments of a call; every tensor contiguous, trajectories innermost
  int64_t rule, rounds, K, d, B;
  const F *arms;       // (K, d) or (d, K, B)
  const F *means;      // (K, B), of round 0 if rewards drift
  const F *best;       // (B)
  const bool *mask;    // (K, B) or null
  const F *noise;      // (rounds, B)
  const double *uniforms;  // (rounds, B), or null for Thompson sampling
  const F *normals;    // (rounds, d, B) for Thompson sampling, or null
  const F *scale;      // beta or the scale of Thompson's draw, addressed by the two strides
  int64_t scale_round, scale_lane;
  double odds, smoothing, epsilon;
  F *mu_hat, *width_sq, *root, *gamma;  // (K, B), (K, B), (d, d, B), (B): updated in place
  const F *rotated_means, *drift_rate;  // (K, B), (B), or null if rewards do not drift
  int64_t start;       // number of the first round
  F *V, *b;            // (d, d, B), (d, B), or null without forgetting: updated in place
  double discount, ridge_alpha;
  F *running_sums;     // (SUM_COUNT, B) or null: updated in place
  double *arm_sums;    // (B, K, 3) plays, sum of rewards and of their squares per arm, or null: updated in place
  const double *scales;  // (SCALE_COUNT, B), or null: the policy's ridge is ridge_alpha and its offset 0
  const F *offset_width_sq;  // (K, B), or null: what the uncertainty of the offset adds to width_sq, with forgetting
  F *regret;           // (rounds, B)
  F *terms;            // (TERM_COUNT, B) or null if they are not requested: added to
  F *scores;           // (SCORE_COUNT, rounds, B) or null if they are not requested
};

// LANES trajectories in contiguous memory: row r of lane l is at [r * LANES + l].
template <typename F, bool SHARED, bool MASKED>
struct Tile {
  const Block<F> &s;
  const int64_t K, d;
  std::vector<F> memory;
  F *X, *means, *allowed, *mu, *w2, *root, *width, *S, *p, *z, *x, *w, *u;  // mu = mu_hat, w2 = width_sq
  F *origin, *rotated, *V, *b, *L, *of_offset;  // for drifting means (the first two) and for forgetting
  // All arrays are aligned: otherwise the compiler plays the first and last lanes with instructions that round differently.
  // fresh: gamma of the next round (lagged); low, top: largest lower bound and largest index; aux: a count of arms
  alignas(64) F gamma[LANES], fresh[LANES], best[LANES], beta[LANES], low[LANES], top[LANES], total[LANES], aux[LANES];
  // reward holds the round's regret until it is written out; r_mu: reward minus mu_hat
  F reward[LANES], r_mu[LANES], term[TERM_COUNT][LANES], drift_rate[LANES], sums[SUM_COUNT][LANES];
  F soft_count[LANES] = {};  // soft number of suboptimal arms, of the smooth coldness
  F failed[LANES] = {};  // 1 where V could not be factorised
  F learns[LANES], base[LANES], ridge[LANES];  // 0 while the noise is not known; offset and ridge of the policy's model
  // for scores: widths of i_star and of the arm with the largest S, and dgamma / dbeta
  F low_width[LANES], top_width[LANES], gamma_slope[LANES];
  int64_t arm[LANES], lane_of[LANES], best_arm[LANES];

  explicit Tile(const Block<F> &block) : s(block), K(block.K), d(block.d) {
    const int64_t drift = s.rotated_means != nullptr ? K : 0, forget = s.V != nullptr ? d : 0;
    const int64_t kept = s.V != nullptr ? K : 0;
    memory.resize(((SHARED ? 0 : d * K) + 8 * K + d * d + 3 * d + 2 * drift + 2 * forget * d + forget + kept) * LANES + LANES);
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    F *next = reinterpret_cast<F *>((address + 63) / 64 * 64);
    auto take = [&](int64_t rows) { F *here = next; next += rows * LANES; return here; };
    X = take(SHARED ? 0 : d * K);
    means = take(K); allowed = take(K); mu = take(K); w2 = take(K); width = take(K); S = take(K); p = take(K); z = take(K);
    root = take(d * d); x = take(d); w = take(d); u = take(d);
    origin = take(drift); rotated = take(drift); V = take(forget * d); L = take(forget * d); b = take(forget);
    of_offset = take(kept);
  }

  void fetch(F *to, const F *from, int64_t rows) const {
    for (int64_t r = 0; r < rows; ++r) for (int64_t l = 0; l < LANES; ++l) to[r * LANES + l] = from[r * s.B + lane_of[l]];
  }
  void store(F *to, const F *from, int64_t rows, int64_t lanes) const {
    for (int64_t r = 0; r < rows; ++r) for (int64_t l = 0; l < lanes; ++l) to[r * s.B + lane_of[l]] = from[r * LANES + l];
  }

  void project(const F *v, F *out) const {  // out_k = x_k . v
    const F *shared = s.arms;
    for (int64_t k = 0; k < K; ++k) {
      F sum[LANES] = {};
      for (int64_t j = 0; j < d; ++j) {
        if (SHARED) {
          const F a = shared[k * d + j];
          EACH_LANE sum[l] += a * v[j * LANES + l];
        } else {
          const F *a = X + (j * K + k) * LANES;
          EACH_LANE sum[l] += a[l] * v[j * LANES + l];
        }
      }
      EACH_LANE out[k * LANES + l] = sum[l];
    }
  }
  void times_root(const F *v, F *out) const {  // root v
    for (int64_t i = 0; i < d; ++i) {
      F sum[LANES] = {};
      for (int64_t j = 0; j < d; ++j) EACH_LANE sum[l] += root[(i * d + j) * LANES + l] * v[j * LANES + l];
      EACH_LANE out[i * LANES + l] = sum[l];
    }
  }
  F is_allowed(int64_t k, int64_t l) const { return MASKED ? allowed[k * LANES + l] : F(1); }

  void soft() {  // Eqs. 6-9; p is normalised later, by its sum in draw()
    constexpr F lowest = std::numeric_limits<F>::lowest();
    EACH_LANE low[l] = top[l] = lowest;
    EACH_LANE aux[l] = 0;
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F radius = beta[l] * width[k * LANES + l], lower = mu[k * LANES + l] - radius;
      S[k * LANES + l] = mu[k * LANES + l] + radius;  // the upper bound, until low is known
      const F value = is_allowed(k, l) > 0 ? lower : lowest;
      low_width[l] = value > low[l] ? width[k * LANES + l] : low_width[l];
      low[l] = value > low[l] ? value : low[l];  // lower bound of i_star
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F index = S[k * LANES + l] - low[l], value = is_allowed(k, l) > 0 ? index : lowest;
      S[k * LANES + l] = index;  // Eq. 7: beta phi - gap_hat = upper bound minus the lower bound of i_star
      top_width[l] = value > top[l] ? width[k * LANES + l] : top_width[l];
      top[l] = value > top[l] ? value : top[l];
      aux[l] += index < 0 ? is_allowed(k, l) : F(0);  // |L|, the number of suboptimal arms
    }
    const F odds = F(s.odds);
    constexpr F least = sizeof(F) == 4 ? -60 : -600;  // below it exp is smaller than rounding, and subnormal numbers are slow
    if (s.rule == SOFT_SMOOTH) {
      EACH_LANE total[l] = 0;
      for (int64_t k = 0; k < K; ++k) EACH_LANE {
        const F above = S[k * LANES + l] > 0 ? S[k * LANES + l] : F(0);
        const F share = -above / (F(s.smoothing) * (top[l] > SMALLEST ? top[l] : F(1)));
        total[l] += is_allowed(k, l) * std::exp(share > least ? share : least);
      }
      EACH_LANE fresh[l] = top[l] > SMALLEST ? std::log1p(total[l] * odds) / top[l] : F(0);  // smooth version of Eq. 9 (D6)
      EACH_LANE soft_count[l] = total[l];
    } else {
      EACH_LANE {
        const bool defined = aux[l] > 0 && top[l] > SMALLEST;  // D1
        // Eq. 9
        fresh[l] = defined ? std::log((aux[l] > 1 ? aux[l] : F(1)) * odds) / (defined ? top[l] : F(1)) : F(0);
      }
    }
    if (s.rule != SOFT_LAGGED) EACH_LANE gamma[l] = fresh[l];
    if (s.scores != nullptr) coldness_slope();
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F logit = gamma[l] * ((is_allowed(k, l) > 0 ? S[k * LANES + l] : top[l]) - top[l]);
      p[k * LANES + l] = is_allowed(k, l) * std::exp(logit > least ? logit : least);  // Eq. 8, not yet normalised
    }
  }

  void coldness_slope() {  // dgamma / dbeta, as in functional.logit_slope
    constexpr F least = sizeof(F) == 4 ? -60 : -600;
    F safe[LANES], rise[LANES];
    EACH_LANE {
      safe[l] = top[l] > SMALLEST ? top[l] : F(1);
      rise[l] = (top_width[l] + low_width[l]) / safe[l];
      gamma_slope[l] = -gamma[l] * rise[l];
    }
    if (s.rule == SOFT_SMOOTH) {
      F moved[LANES] = {};
      const F odds = F(s.odds), kappa = F(s.smoothing);
      for (int64_t k = 0; k < K; ++k) EACH_LANE {
        const F above = S[k * LANES + l] > 0 ? S[k * LANES + l] : F(0), share = -above / (kappa * safe[l]);
        const F step = above > 0 ? width[k * LANES + l] + low_width[l] - above * rise[l] : F(0);
        moved[l] += is_allowed(k, l) * std::exp(share > least ? share : least) * step;
      }
      EACH_LANE gamma_slope[l] -= odds * moved[l] / (kappa * safe[l]) / (1 + odds * total[l]) / safe[l];
    }
    EACH_LANE gamma_slope[l] = top[l] > SMALLEST ? gamma_slope[l] : F(0);
  }

  void apply_drift(int64_t t) {  // BanditProblem.means_at
    F c[LANES], q[LANES];
    EACH_LANE { c[l] = std::cos(drift_rate[l] * F(s.start + t)); q[l] = std::sin(drift_rate[l] * F(s.start + t)); }
    EACH_LANE best[l] = std::numeric_limits<F>::lowest();
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F mean = c[l] * origin[k * LANES + l] + q[l] * rotated[k * LANES + l];
      means[k * LANES + l] = mean;
      best[l] = is_allowed(k, l) > 0 && mean > best[l] ? mean : best[l];
    }
  }
  void find_best() {  // the allowed arm with the largest true mean
    for (int64_t l = 0; l < LANES; ++l) {
      best_arm[l] = 0;
      for (int64_t k = 0; k < K; ++k) if (is_allowed(k, l) > 0 && means[k * LANES + l] >= best[l]) { best_arm[l] = k; break; }
    }
  }

  void write_scores(int64_t t, int64_t lanes) {  // functional.trajectory_score, and inputs of the control variate
    F mean[LANES] = {}, present[LANES] = {}, wide[LANES] = {}, expected[LANES] = {}, inside[LANES] = {}, every[LANES] = {};
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F share = p[k * LANES + l] / total[l], slope = gamma_slope[l] * S[k * LANES + l] + gamma[l] * width[k * LANES + l];
      mean[l] += share * slope;
      present[l] += share * means[k * LANES + l] * slope;
      expected[l] += share * means[k * LANES + l];
      wide[l] += share * width[k * LANES + l];
      const F off = std::abs(means[k * LANES + l] - mu[k * LANES + l]);
      // Eq. 3
      inside[l] += off <= beta[l] * width[k * LANES + l] ? is_allowed(k, l) : F(0);
      every[l] += is_allowed(k, l);
    }
    F sharp[LANES], s_mean[LANES] = {}, s_present[LANES] = {}, value[LANES] = {}, spread[LANES] = {}, widths[LANES] = {};
    EACH_LANE {  // functional.delta_slope is S times sharp
      const F scaled = F(s.odds) * soft_count[l];
      const F share = s.rule == SOFT_SMOOTH ? scaled / (1 + scaled) : (aux[l] > 0 ? F(1) : F(0));
      sharp[l] = top[l] > SMALLEST ? share / top[l] : F(0);
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F share = p[k * LANES + l] / total[l], slope = sharp[l] * S[k * LANES + l];
      s_mean[l] += share * slope;
      s_present[l] += share * means[k * LANES + l] * slope;
      value[l] += share * mu[k * LANES + l];
      widths[l] += is_allowed(k, l) * width[k * LANES + l];
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE
      spread[l] += (mu[k * LANES + l] - value[l]) * p[k * LANES + l] / total[l] * width[k * LANES + l];
    const int64_t plane = s.rounds * s.B;
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t at = arm[l] * LANES + l, top_at = best_arm[l] * LANES + l;
      F *to = s.scores + t * s.B + lane_of[l];
      to[SCORE_PRESENT * plane] = present[l] - mean[l] * expected[l];
      to[SCORE_SCORE * plane] = gamma_slope[l] * S[at] + gamma[l] * width[at] - mean[l];
      to[SCORE_BEST_PROB * plane] = p[top_at] / total[l];
      to[SCORE_BEST_INDEX * plane] = S[top_at];
      to[SCORE_BEST_WIDTH * plane] = width[top_at];
      to[SCORE_MEAN_WIDTH * plane] = wide[l];
      to[SCORE_COVERAGE * plane] = inside[l] / every[l];
      to[SCORE_DELTA_PRESENT * plane] = s_present[l] - s_mean[l] * expected[l];
      to[SCORE_DELTA_SCORE * plane] = sharp[l] * S[at] - s_mean[l];
      to[SCORE_REWARD_SLOPE * plane] = gamma[l] * spread[l];  // Eq. 13, one round
      to[SCORE_SUM_WIDTH * plane] = widths[l];
    }
  }

  void greedy() {  // 1 - epsilon shared by the best arms (ties within rounding), epsilon by all allowed arms
    constexpr F lowest = std::numeric_limits<F>::lowest(), ulps = 16 * std::numeric_limits<F>::epsilon();
    EACH_LANE top[l] = lowest;
    EACH_LANE low[l] = aux[l] = 0;
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F index = mu[k * LANES + l] + beta[l] * width[k * LANES + l];
      S[k * LANES + l] = is_allowed(k, l) > 0 ? index : lowest;
      top[l] = S[k * LANES + l] > top[l] ? S[k * LANES + l] : top[l];
    }
    EACH_LANE total[l] = top[l] - ulps * std::abs(top[l]);
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      p[k * LANES + l] = S[k * LANES + l] >= total[l] ? is_allowed(k, l) : F(0);
      low[l] += p[k * LANES + l];
      aux[l] += is_allowed(k, l);
    }
    const F epsilon = F(s.epsilon);
    for (int64_t k = 0; k < K; ++k) EACH_LANE
      p[k * LANES + l] = (1 - epsilon) * p[k * LANES + l] / low[l] + epsilon * is_allowed(k, l) / aux[l];
  }

  [[gnu::noinline]] int64_t draw_exactly(int64_t l, double uniform) const {
    double sum = 0, running = 0;
    for (int64_t k = 0; k < K; ++k) sum += p[k * LANES + l];
    int64_t last = 0;  // if rounding leaves no sum above the share, the last arm that can be drawn
    for (int64_t k = 0; k < K; ++k) {
      running += p[k * LANES + l];
      if (p[k * LANES + l] > 0) last = k;
      if (running > uniform * sum) break;
    }
    return last;
  }

  void draw(int64_t t) {  // inverse CDF: the first arm whose cumulative p exceeds the uniform number times the total
    F running[LANES] = {};
    for (int64_t k = 0; k < K; ++k) EACH_LANE { running[l] += p[k * LANES + l]; z[k * LANES + l] = running[l]; }
    EACH_LANE total[l] = running[l];
    // Rounding of the sums and of the share moves a boundary by at most slack; where one is that close, draw again in double.
    const F slack = F(K + 2) * std::numeric_limits<F>::epsilon();
    F below[LANES], above[LANES], least[LANES], most[LANES], doubt = 0;
    EACH_LANE {
      const F uniform = F(s.uniforms[t * s.B + lane_of[l]]);
      below[l] = (uniform - slack) * total[l];
      above[l] = (uniform + slack) * total[l];
      least[l] = most[l] = 0;
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      least[l] += z[k * LANES + l] <= below[l] ? F(1) : F(0);
      most[l] += z[k * LANES + l] <= above[l] ? F(1) : F(0);
    }
    for (int64_t l = 0; l < LANES; ++l) arm[l] = std::min(int64_t(least[l]), K - 1);
    for (int64_t l = 0; l < LANES; ++l) doubt += most[l] - least[l];
    if (doubt > 0) for (int64_t l = 0; l < LANES; ++l)
      if (most[l] > least[l]) arm[l] = draw_exactly(l, s.uniforms[t * s.B + lane_of[l]]);
    F expected[LANES] = {}, value[LANES] = {}, spread[LANES] = {}, widths[LANES] = {};
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      expected[l] += p[k * LANES + l] * means[k * LANES + l];
      value[l] += p[k * LANES + l] * mu[k * LANES + l];
      widths[l] += is_allowed(k, l) * width[k * LANES + l];
    }
    EACH_LANE { value[l] /= total[l]; reward[l] = best[l] - expected[l] / total[l]; }  // Eq. 2
    if (s.terms == nullptr) return;
    for (int64_t k = 0; k < K; ++k) EACH_LANE
      spread[l] += (mu[k * LANES + l] - value[l]) * p[k * LANES + l] * width[k * LANES + l];
    EACH_LANE {
      term[TERM_REWARD][l] += gamma[l] * spread[l] / total[l];  // Eq. 13, one round
      term[TERM_PENALTY][l] += widths[l];  // Eq. 13 at eta = 1
      term[TERM_VALUE][l] += value[l];
    }
  }

  void thompson(int64_t t) {  // the best arm under theta ~ N(theta_hat, scale^2 V^-1)
    for (int64_t j = 0; j < d; ++j) for (int64_t l = 0; l < LANES; ++l)
      x[j * LANES + l] = s.normals[(t * d + j) * s.B + lane_of[l]];
    times_root(x, u);
    project(u, S);
    EACH_LANE top[l] = std::numeric_limits<F>::lowest();
    F chosen[LANES] = {};
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F index = mu[k * LANES + l] + beta[l] * S[k * LANES + l];
      const bool better = is_allowed(k, l) > 0 && index > top[l];
      top[l] = better ? index : top[l];
      chosen[l] = better ? F(k) : chosen[l];
    }
    for (int64_t l = 0; l < LANES; ++l) {
      arm[l] = std::min(int64_t(chosen[l]), K - 1);
      reward[l] = best[l] - means[arm[l] * LANES + l];
    }
  }

  void update_and_forget(int64_t t) {  // ForgettingArms.update
    const F rho = F(s.discount);
    F y[LANES], restored[LANES];
    EACH_LANE restored[l] = F((1 - s.discount) * ridge[l]);
    for (int64_t l = 0; l < LANES; ++l) {
      const int64_t at = arm[l] * LANES + l;
      y[l] = means[at] + s.noise[t * s.B + lane_of[l]] - base[l];
      for (int64_t j = 0; j < d; ++j) x[j * LANES + l] = SHARED ? s.arms[arm[l] * d + j] : X[j * K * LANES + at];
    }
    for (int64_t i = 0; i < d; ++i) {
      EACH_LANE b[i * LANES + l] = rho * b[i * LANES + l] + x[i * LANES + l] * y[l];
      for (int64_t j = 0; j < d; ++j) {
        F *v = V + (i * d + j) * LANES;
        const F own = i == j ? F(1) : F(0);
        EACH_LANE v[l] = rho * v[l] + own * restored[l] + x[i * LANES + l] * x[j * LANES + l];
      }
    }
    F log_det[LANES] = {};
    for (int64_t j = 0; j < d; ++j) {  // V = L L^T
      F diagonal[LANES];
      EACH_LANE diagonal[l] = V[(j * d + j) * LANES + l];
      for (int64_t k = 0; k < j; ++k) EACH_LANE diagonal[l] -= L[(j * d + k) * LANES + l] * L[(j * d + k) * LANES + l];
      EACH_LANE {  // where V is not positive definite, mark the lane and continue with 1
        failed[l] = diagonal[l] > 0 ? failed[l] : F(1);
        diagonal[l] = std::sqrt(diagonal[l] > 0 ? diagonal[l] : F(1));
        L[(j * d + j) * LANES + l] = diagonal[l];
      }
      EACH_LANE log_det[l] += 2 * std::log(diagonal[l]);
      for (int64_t i = j + 1; i < d; ++i) {
        F sum[LANES];
        EACH_LANE sum[l] = V[(i * d + j) * LANES + l];
        for (int64_t k = 0; k < j; ++k) EACH_LANE sum[l] -= L[(i * d + k) * LANES + l] * L[(j * d + k) * LANES + l];
        EACH_LANE L[(i * d + j) * LANES + l] = sum[l] / diagonal[l];
      }
    }
    for (int64_t i = 0; i < d * d; ++i) EACH_LANE root[i * LANES + l] = 0;
    for (int64_t j = 0; j < d; ++j) for (int64_t i = j; i < d; ++i) {  // root = L^-T: root[j][i] = (L^-1)[i][j]
      F sum[LANES];
      EACH_LANE sum[l] = i == j ? F(1) : F(0);
      for (int64_t k = j; k < i; ++k) EACH_LANE sum[l] -= L[(i * d + k) * LANES + l] * root[(j * d + k) * LANES + l];
      EACH_LANE root[(j * d + i) * LANES + l] = sum[l] / L[(i * d + i) * LANES + l];
    }
    F explained[LANES] = {};
    for (int64_t i = 0; i < d; ++i) {  // w = root^T b; below, u = root w = theta_hat
      F sum[LANES] = {};
      for (int64_t j = 0; j <= i; ++j) EACH_LANE sum[l] += root[(j * d + i) * LANES + l] * b[j * LANES + l];
      EACH_LANE { w[i * LANES + l] = sum[l]; explained[l] += sum[l] * sum[l]; }
    }
    times_root(w, u);
    project(u, mu);
    for (int64_t k = 0; k < K; ++k) EACH_LANE { mu[k * LANES + l] += base[l]; w2[k * LANES + l] = of_offset[k * LANES + l]; }
    for (int64_t i = 0; i < d; ++i) {  // width^2 = |root^T x_k|^2, one column of root at a time
      for (int64_t j = 0; j < d; ++j) EACH_LANE u[j * LANES + l] = root[(j * d + i) * LANES + l];
      project(u, z);
      for (int64_t k = 0; k < K; ++k) EACH_LANE w2[k * LANES + l] += z[k * LANES + l] * z[k * LANES + l];
    }
    if (s.running_sums == nullptr) return;
    const F fresh_det = F(d * std::log(s.ridge_alpha));
    EACH_LANE {
      sums[SUM_NUM_OBSERVATIONS][l] = rho * sums[SUM_NUM_OBSERVATIONS][l] + 1;
      sums[SUM_SUM_OF_SQUARES][l] = rho * sums[SUM_SUM_OF_SQUARES][l] + y[l] * y[l];
      const F left = sums[SUM_SUM_OF_SQUARES][l] - explained[l];
      sums[SUM_RESIDUAL_SUM][l] = left > 0 ? left : F(0);
      sums[SUM_LOG_DET][l] = log_det[l] - fresh_det;
    }
  }

  void count_arms(int64_t t, int64_t lanes) {
    for (int64_t l = 0; l < lanes; ++l) {
      const F reward = means[arm[l] * LANES + l] + s.noise[t * s.B + lane_of[l]];
      const double y = double(reward) - (s.scales != nullptr ? s.scales[SCALE_ANCHOR * s.B + lane_of[l]] : 0.0);
      double *first = s.arm_sums + 3 * lane_of[l] * K, *to = first + 3 * arm[l];
      if (s.discount < 1) for (int64_t i = 0; i < 3 * K; ++i) first[i] *= s.discount;
      to[0] += 1;
      to[1] += y;
      to[2] += y * y;
    }
  }
  void fetch_scales() {
    for (int64_t l = 0; l < LANES; ++l) {
      const double *of = s.scales != nullptr ? s.scales + lane_of[l] : nullptr;
      learns[l] = of == nullptr || of[SCALE_NOISE_STD * s.B] > 0 ? F(1) : F(0);
      base[l] = of == nullptr ? F(0) : F(of[SCALE_ANCHOR * s.B] + of[SCALE_OFFSET * s.B]);
      ridge[l] = of == nullptr ? F(s.ridge_alpha) : F(of[SCALE_RHO * s.B]);
    }
  }

  void update(int64_t t) {  // FixedArms.update
    F q[LANES], residual[LANES], step[LANES];
    for (int64_t l = 0; l < LANES; ++l) {
      const int64_t at = arm[l] * LANES + l;
      r_mu[l] = means[at] + s.noise[t * s.B + lane_of[l]] - mu[at];
      for (int64_t j = 0; j < d; ++j) x[j * LANES + l] = SHARED ? s.arms[arm[l] * d + j] : X[j * K * LANES + at];
    }
    for (int64_t j = 0; j < d; ++j) EACH_LANE w[j * LANES + l] = 0;
    for (int64_t i = 0; i < d; ++i) for (int64_t j = 0; j < d; ++j)
      EACH_LANE w[j * LANES + l] += root[(i * d + j) * LANES + l] * x[i * LANES + l];  // root^T x
    times_root(w, u);  // V^-1 x
    EACH_LANE q[l] = 1;
    for (int64_t j = 0; j < d; ++j) EACH_LANE q[l] += w[j * LANES + l] * w[j * LANES + l];
    if (s.running_sums != nullptr) EACH_LANE {
      sums[SUM_NUM_OBSERVATIONS][l] += 1;
      sums[SUM_RESIDUAL_SUM][l] += r_mu[l] * r_mu[l] / q[l];
      sums[SUM_LOG_DET][l] += std::log(q[l]);
    }
    EACH_LANE { residual[l] = learns[l] * r_mu[l] / q[l]; step[l] = 1 / (q[l] + std::sqrt(q[l])); q[l] = 1 / q[l]; }
    project(u, z);
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F zk = z[k * LANES + l];
      mu[k * LANES + l] += zk * residual[l];
      w2[k * LANES + l] -= zk * zk * q[l];
    }
    for (int64_t j = 0; j < d; ++j) EACH_LANE w[j * LANES + l] *= step[l];
    for (int64_t i = 0; i < d; ++i) for (int64_t j = 0; j < d; ++j)
      EACH_LANE root[(i * d + j) * LANES + l] -= u[i * LANES + l] * w[j * LANES + l];
  }

  void play(int64_t first, int64_t lanes) {
    // unused lanes repeat the last trajectory
    for (int64_t l = 0; l < LANES; ++l) lane_of[l] = first + (l < lanes ? l : lanes - 1);
    if (!SHARED) fetch(X, s.arms, d * K);
    if (MASKED) for (int64_t k = 0; k < K; ++k) for (int64_t l = 0; l < LANES; ++l)
      allowed[k * LANES + l] = s.mask[k * s.B + lane_of[l]] ? F(1) : F(0);
    fetch(means, s.means, K); fetch(mu, s.mu_hat, K); fetch(w2, s.width_sq, K); fetch(root, s.root, d * d);
    fetch(gamma, s.gamma, 1); fetch(best, s.best, 1);
    if (s.rotated_means != nullptr) {
      fetch(origin, s.means, K); fetch(rotated, s.rotated_means, K); fetch(drift_rate, s.drift_rate, 1);
    }
    if (s.V != nullptr) {
      fetch(V, s.V, d * d); fetch(b, s.b, d);
      if (s.offset_width_sq != nullptr) fetch(of_offset, s.offset_width_sq, K);
      else std::fill(of_offset, of_offset + K * LANES, F(0));
    }
    if (s.running_sums != nullptr) for (int64_t i = 0; i < SUM_COUNT; ++i) fetch(sums[i], s.running_sums + i * s.B, 1);
    find_best();
    fetch_scales();
    EACH_LANE failed[l] = 0;
    if (s.terms != nullptr) for (int64_t i = 0; i < TERM_COUNT; ++i) fetch(term[i], s.terms + i * s.B, 1);
    for (int64_t t = 0; t < s.rounds; ++t) {
      if (s.rotated_means != nullptr) { apply_drift(t); find_best(); }
      for (int64_t l = 0; l < LANES; ++l) beta[l] = s.scale[t * s.scale_round + lane_of[l] * s.scale_lane];
      if (s.rule == THOMPSON) {
        thompson(t);
      } else {
        for (int64_t i = 0; i < K * LANES; ++i) width[i] = std::sqrt(w2[i]);
        s.rule == GREEDY ? greedy() : soft();
        draw(t);
        if (s.scores != nullptr) write_scores(t, lanes);
      }
      for (int64_t l = 0; l < lanes; ++l) s.regret[t * s.B + lane_of[l]] = reward[l];
      if (s.arm_sums != nullptr) count_arms(t, lanes);
      s.V != nullptr ? update_and_forget(t) : update(t);
      if (s.rule == SOFT_LAGGED) EACH_LANE gamma[l] = fresh[l];
    }
    // PlayState.check_estimates reports a width_sq of -1
    for (int64_t k = 0; k < K; ++k) EACH_LANE w2[k * LANES + l] = failed[l] > 0 ? F(-1) : w2[k * LANES + l];
    store(s.mu_hat, mu, K, lanes); store(s.width_sq, w2, K, lanes); store(s.root, root, d * d, lanes);
    store(s.gamma, gamma, 1, lanes);
    if (s.V != nullptr) { store(s.V, V, d * d, lanes); store(s.b, b, d, lanes); }
    if (s.running_sums != nullptr) for (int64_t i = 0; i < SUM_COUNT; ++i) store(s.running_sums + i * s.B, sums[i], 1, lanes);
    if (s.terms != nullptr) for (int64_t i = 0; i < TERM_COUNT; ++i) store(s.terms + i * s.B, term[i], 1, lanes);
  }
};

template <typename F, bool SHARED, bool MASKED>
void play_all(const Block<F> &s) {
  const int64_t tiles = (s.B + LANES - 1) / LANES;
  // Dynamic scheduling: idle threads take the next tile, so a slow core does not stall the rest.
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min<int64_t>(tiles, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    Tile<F, SHARED, MASKED> tile(s);
    for (int64_t i = next++; i < tiles; i = next++) tile.play(i * LANES, std::min(LANES, s.B - i * LANES));
  });
}

}  // namespace

#include "contextual.h"

namespace {

using Tensors = c10::List<std::optional<at::Tensor>>;

// Raises, naming the tensor, unless it is a contiguous CPU tensor of the expected shape and dtype.
struct CheckTensor {
  at::ScalarType dtype;

  void operator()(const char *name, const at::Tensor &t, at::IntArrayRef shape) const { (*this)(name, t, shape, dtype); }
  void operator()(const char *name, const at::Tensor &t, at::IntArrayRef shape, at::ScalarType expected) const {
    TORCH_CHECK(t.device().is_cpu(), "rounds: ", name, " must be on the CPU, got ", t.device());
    TORCH_CHECK(t.scalar_type() == expected, "rounds: ", name, " must have dtype ", expected, ", got ", t.scalar_type());
    TORCH_CHECK(t.sizes() == shape, "rounds: ", name, " must have shape ", shape, ", got ", t.sizes());
    TORCH_CHECK(t.is_contiguous(), "rounds: ", name, " must be contiguous");
  }
};

int64_t rule_of(c10::string_view name) {
  for (int64_t i = 0; i < RULES; ++i) if (name == RULE_NAMES[i]) return i;
  TORCH_CHECK(false, "rounds: rule must be one of soft_current, soft_lagged, soft_smooth, greedy, thompson, got ", name);
  return RULES;
}

void rounds(c10::string_view rule_name, int64_t start, const Tensors &state, const Tensors &problem, const at::Tensor &noise,
            const at::Tensor &draws, const at::Tensor &scale, at::ArrayRef<double> settings, const Tensors &outputs) {
  const int64_t rule = rule_of(rule_name);
  TORCH_CHECK(state.size() == STATE_FIELDS, "rounds: state must have ", +STATE_FIELDS, " tensors, got ", state.size());
  TORCH_CHECK(problem.size() == PROBLEM_FIELDS, "rounds: problem must have ", +PROBLEM_FIELDS, " tensors, got ", problem.size());
  TORCH_CHECK(settings.size() == SETTINGS, "rounds: settings must have ", +SETTINGS, " numbers, got ", settings.size());
  TORCH_CHECK(outputs.size() == OUTPUT_FIELDS, "rounds: outputs must have ", +OUTPUT_FIELDS, " tensors, got ", outputs.size());
  const auto given = [](const Tensors &list, size_t i) { return std::optional<at::Tensor>(list.get(i)); };
  const auto needed = [&](const Tensors &list, size_t i, const char *name) {
    const auto t = given(list, i);
    TORCH_CHECK(t.has_value(), "rounds: ", name, " must be given");
    return *t;
  };

  const at::Tensor arms = needed(problem, ARMS, "arms"), means = needed(problem, MEANS, "means");
  const at::Tensor best = needed(problem, BEST, "best"), mu_hat = needed(state, MU_HAT, "mu_hat");
  const at::Tensor width_sq = needed(state, WIDTH_SQ, "width_sq"), root = needed(state, ROOT, "root");
  const at::Tensor gamma = needed(state, GAMMA, "gamma"), regret = needed(outputs, REGRET, "regret");
  const auto mask = given(problem, MASK), rotated_means = given(problem, ROTATED_MEANS), drift_rate = given(problem, DRIFT_RATE);
  const auto V = given(state, V_MATRIX), b = given(state, B_VECTOR), running_sums = given(state, RUNNING_SUMS);
  const auto arm_sums = given(state, ARM_SUMS), scales = given(state, SCALES);
  const auto offset_width_sq = given(state, OFFSET_WIDTH_SQ);
  const auto terms = given(outputs, TERMS), scores = given(outputs, SCORES);
  TORCH_CHECK(rotated_means.has_value() == drift_rate.has_value(), "rounds: rotated_means and drift_rate must be given together");
  TORCH_CHECK(V.has_value() == b.has_value(), "rounds: V and b must be given together");
  TORCH_CHECK(means.dim() >= 1 && arms.dim() >= 2 && noise.dim() >= 1 && means.numel() > 0 && arms.numel() > 0,
              "rounds: means must be (K, *B), arms (K, d) or (d, K, *B), noise (n, *B), none of them empty, got ", means.sizes(),
              ", ", arms.sizes(), ", ", noise.sizes());

  // leading dims, then the batch, which may have any number of dims
  const auto batch = means.sizes().slice(1);
  const auto shape = [&](std::initializer_list<int64_t> lead) {
    std::vector<int64_t> sizes(lead);
    sizes.insert(sizes.end(), batch.begin(), batch.end());
    return sizes;
  };
  const bool shared = arms.dim() == 2;
  const int64_t n = noise.size(0), K = means.size(0), B = means.numel() / K, d = arms.size(shared ? 1 : 0);
  const CheckTensor check{means.scalar_type()};
  check("arms", arms, shared ? std::vector<int64_t>{K, d} : shape({d, K}));
  check("means", means, shape({K}));
  check("best", best, shape({}));
  if (mask) check("mask", *mask, shape({K}), at::kBool);
  if (rotated_means) check("rotated_means", *rotated_means, shape({K}));
  if (drift_rate) check("drift_rate", *drift_rate, shape({}));
  check("mu_hat", mu_hat, shape({K}));
  check("width_sq", width_sq, shape({K}));
  check("root", root, shape({d, d}));
  check("gamma", gamma, shape({}));
  if (running_sums) check("running_sums", *running_sums, shape({SUM_COUNT}));
  if (V) check("V", *V, shape({d, d}));
  if (b) check("b", *b, shape({d}));
  auto by_lane = shape({});
  by_lane.insert(by_lane.end(), {K, 3});
  if (arm_sums) check("arm_sums", *arm_sums, by_lane, at::kDouble);
  if (scales) check("scales", *scales, shape({SCALE_COUNT}), at::kDouble);
  if (offset_width_sq) check("offset_width_sq", *offset_width_sq, shape({K}));
  check("noise", noise, shape({n}));
  if (rule == THOMPSON) check("draws", draws, shape({n, d}));
  else check("draws", draws, shape({n}), at::kDouble);
  check("regret", regret, shape({n}));
  if (terms) check("terms", *terms, shape({TERM_COUNT}));
  if (scores) check("scores", *scores, shape({SCORE_COUNT, n}));
  TORCH_CHECK(scale.device().is_cpu() && scale.scalar_type() == means.scalar_type(),
              "rounds: scale must be on the CPU with dtype ", means.scalar_type(), ", got ", scale.scalar_type(), " on ",
              scale.device());
  TORCH_CHECK(scale.dim() == 2 && (scale.size(0) == 1 || scale.size(0) == n) && (scale.size(1) == 1 || scale.size(1) == B),
              "rounds: scale must have shape [", n, " or 1, ", B, " or 1], got ", scale.sizes());

  AT_DISPATCH_FLOATING_TYPES(means.scalar_type(), "rounds", [&] {
    const auto read = [](const std::optional<at::Tensor> &t) { return t ? t->const_data_ptr<scalar_t>() : nullptr; };
    const auto write = [](const std::optional<at::Tensor> &t) { return t ? t->mutable_data_ptr<scalar_t>() : nullptr; };
    Block<scalar_t> s{};
    s.rule = rule; s.rounds = n; s.K = K; s.d = d; s.B = B; s.start = start;
    s.arms = arms.const_data_ptr<scalar_t>();
    s.means = means.const_data_ptr<scalar_t>();
    s.best = best.const_data_ptr<scalar_t>();
    s.mask = mask ? mask->const_data_ptr<bool>() : nullptr;
    s.rotated_means = read(rotated_means);
    s.drift_rate = read(drift_rate);
    s.noise = noise.const_data_ptr<scalar_t>();
    s.uniforms = rule == THOMPSON ? nullptr : draws.const_data_ptr<double>();
    s.normals = rule == THOMPSON ? draws.const_data_ptr<scalar_t>() : nullptr;
    s.scale = scale.const_data_ptr<scalar_t>();
    s.scale_round = scale.size(0) > 1 ? scale.stride(0) : 0;
    s.scale_lane = scale.size(1) > 1 ? scale.stride(1) : 0;
    s.odds = settings[ODDS]; s.smoothing = settings[SMOOTHING]; s.epsilon = settings[EPSILON];
    s.discount = settings[DISCOUNT]; s.ridge_alpha = settings[RIDGE_ALPHA];
    s.mu_hat = mu_hat.mutable_data_ptr<scalar_t>();
    s.width_sq = width_sq.mutable_data_ptr<scalar_t>();
    s.root = root.mutable_data_ptr<scalar_t>();
    s.gamma = gamma.mutable_data_ptr<scalar_t>();
    s.running_sums = write(running_sums);
    s.V = write(V);
    s.b = write(b);
    s.arm_sums = arm_sums ? arm_sums->mutable_data_ptr<double>() : nullptr;
    s.scales = scales ? scales->const_data_ptr<double>() : nullptr;
    s.offset_width_sq = read(offset_width_sq);
    s.regret = regret.mutable_data_ptr<scalar_t>();
    s.terms = write(terms);
    s.scores = write(scores);
    if (shared && mask) play_all<scalar_t, true, true>(s);
    else if (shared) play_all<scalar_t, true, false>(s);
    else if (mask) play_all<scalar_t, false, true>(s);
    else play_all<scalar_t, false, false>(s);
  });
}

// Estimates the scales of all trajectories, see scales.h.
void rescale(const at::Tensor &arms, const at::Tensor &arm_sums, const at::Tensor &scales, const at::Tensor &mu_hat,
             const at::Tensor &width_sq, const at::Tensor &root, const std::optional<at::Tensor> &V,
             const std::optional<at::Tensor> &b, const std::optional<at::Tensor> &offset_width_sq) {
  TORCH_CHECK(mu_hat.dim() >= 1 && arms.dim() >= 2 && mu_hat.numel() > 0 && arms.numel() > 0,
              "rescale: mu_hat must be (K, *B), arms (K, d) or (d, K, *B), none of them empty");
  TORCH_CHECK(V.has_value() == b.has_value(), "rescale: V and b must be given together");
  const auto batch = mu_hat.sizes().slice(1);
  const auto shape = [&](std::initializer_list<int64_t> lead) {
    std::vector<int64_t> sizes(lead);
    sizes.insert(sizes.end(), batch.begin(), batch.end());
    return sizes;
  };
  const bool shared = arms.dim() == 2;
  const int64_t K = mu_hat.size(0), B = mu_hat.numel() / K, d = arms.size(shared ? 1 : 0);
  const CheckTensor check{mu_hat.scalar_type()};
  check("arms", arms, shared ? std::vector<int64_t>{K, d} : shape({d, K}));
  check("mu_hat", mu_hat, shape({K}));
  check("width_sq", width_sq, shape({K}));
  check("root", root, shape({d, d}));
  check("scales", scales, shape({SCALE_COUNT}), at::kDouble);
  auto by_lane = shape({});
  by_lane.insert(by_lane.end(), {K, 3});
  check("arm_sums", arm_sums, by_lane, at::kDouble);
  if (V) check("V", *V, shape({d, d}));
  if (b) check("b", *b, shape({d}));
  if (offset_width_sq) check("offset_width_sq", *offset_width_sq, shape({K}));
  AT_DISPATCH_FLOATING_TYPES(mu_hat.scalar_type(), "rescale", [&] {
    ScaleBlock<scalar_t> s{};
    s.K = K; s.d = d; s.B = B; s.shared = shared;
    s.arms = arms.const_data_ptr<scalar_t>();
    s.arm_sums = arm_sums.mutable_data_ptr<double>();
    s.scales = scales.mutable_data_ptr<double>();
    s.mu_hat = mu_hat.mutable_data_ptr<scalar_t>();
    s.width_sq = width_sq.mutable_data_ptr<scalar_t>();
    s.root = root.mutable_data_ptr<scalar_t>();
    s.V = V ? V->mutable_data_ptr<scalar_t>() : nullptr;
    s.b = b ? b->mutable_data_ptr<scalar_t>() : nullptr;
    s.offset_width_sq = offset_width_sq ? offset_width_sq->mutable_data_ptr<scalar_t>() : nullptr;
    const int64_t tiles = (B + SCALE_LANES - 1) / SCALE_LANES;
    at::parallel_for(0, tiles, 1, [&](int64_t begin, int64_t end) {
      ScaleTile<scalar_t> tile(s);
      for (int64_t i = begin; i < end; ++i) tile.run(i * SCALE_LANES, std::min(SCALE_LANES, B - i * SCALE_LANES));
    });
  });
}

// Plays a block of rounds with changing candidates, see contextual.h. `numbers` are, in this order, the settings of `rounds`,
// and `shape` the sizes and flags of World.
void contextual_rounds(c10::string_view rule_name, int64_t start, const Tensors &world, const Tensors &state,
                       const at::Tensor &noise, const at::Tensor &draws, const at::Tensor &scale, at::ArrayRef<double> settings,
                       at::IntArrayRef shape, const Tensors &outputs) {
  const int64_t rule = rule_of(rule_name);
  TORCH_CHECK(world.size() == WORLD_FIELDS, "contextual_rounds: world must have ", +WORLD_FIELDS, " tensors, got ", world.size());
  TORCH_CHECK(start >= 0, "contextual_rounds: start must be at least 0, got ", start);
  TORCH_CHECK(state.size() == 4, "contextual_rounds: state must have 4 tensors, got ", state.size());
  TORCH_CHECK(settings.size() == SETTINGS && shape.size() == SHAPE_FIELDS && outputs.size() == OUTPUT_FIELDS,
              "contextual_rounds: expected ", +SETTINGS, " settings, ", +SHAPE_FIELDS, " sizes and ", +OUTPUT_FIELDS, " outputs");
  const auto given = [](const Tensors &list, size_t i) { return std::optional<at::Tensor>(list.get(i)); };
  const auto needed = [&](const Tensors &list, size_t i, const char *name) {
    const auto t = given(list, i);
    TORCH_CHECK(t.has_value(), "contextual_rounds: ", name, " must be given");
    return *t;
  };
  const at::Tensor items = needed(world, ITEMS, "items"), means = needed(world, ITEM_MEANS, "means");
  const at::Tensor candidates = needed(world, CANDIDATES, "candidates");
  const auto base = given(world, ITEM_BASE), rotated = given(world, ITEM_ROTATED), rate = given(world, ITEM_DRIFT_RATE);
  const auto delays = given(world, DELAYS), waiting = given(state, 1);
  const at::Tensor statistics = needed(state, 0, "statistics"), mu_hat = needed(state, 2, "mu_hat");
  const at::Tensor width = needed(state, 3, "width"), regret = needed(outputs, REGRET, "regret");
  const auto terms = given(outputs, TERMS), scores = given(outputs, SCORES);
  TORCH_CHECK(means.dim() == 2 && (items.dim() == 2 || items.dim() == 3) && noise.dim() == 2 && candidates.dim() == 3 &&
                  statistics.dim() == 2 && means.numel() > 0 && items.numel() > 0 && candidates.numel() > 0,
              "contextual_rounds: means must be (B, M), items (M, d) or (B, M, d), noise (n, B), candidates (n, B, K) and "
              "statistics (B, size), none of them empty");
  const bool own_items = items.dim() == 3;
  const int64_t B = means.size(0), M = means.size(1), d = items.size(-1), n = noise.size(0), K = candidates.size(2);
  const int64_t memory_size = shape[SHAPE_MEMORY_SIZE], size = 2 * d * d + d + memory_size + 2, slots = shape[SHAPE_SLOTS];
  const CheckTensor check{means.scalar_type()};
  check("items", items, own_items ? std::vector<int64_t>{B, M, d} : std::vector<int64_t>{M, d});
  check("means", means, {B, M});
  if (base) check("base", *base, own_items ? std::vector<int64_t>{B, M} : std::vector<int64_t>{M});
  TORCH_CHECK(rotated.has_value() == rate.has_value(), "contextual_rounds: rotated_means and drift_rate must be given together");
  if (rotated) { check("rotated_means", *rotated, {B, M}); check("drift_rate", *rate, {B}); }
  check("candidates", candidates, {n, B, K}, at::kInt);
  check("statistics", statistics, {B, size}, at::kDouble);
  TORCH_CHECK(waiting.has_value() == (slots > 0), "contextual_rounds: waiting goes with delays");
  if (waiting) check("waiting", *waiting, {B, slots, WAITING_COUNT}, at::kDouble);
  if (delays) check("delays", *delays, {n, B}, at::kLong);
  check("mu_hat", mu_hat, {B});
  check("width", width, {B});
  check("noise", noise, {n, B});
  if (rule == THOMPSON) check("draws", draws, {n, d, B});
  else check("draws", draws, {n, B}, at::kDouble);
  check("regret", regret, {n, B});
  if (terms) check("terms", *terms, {TERM_COUNT, B});
  if (scores) check("scores", *scores, {SCORE_COUNT, n, B});
  TORCH_CHECK(scale.device().is_cpu() && scale.scalar_type() == means.scalar_type() && scale.dim() == 2 &&
                  (scale.size(0) == 1 || scale.size(0) == n) && (scale.size(1) == 1 || scale.size(1) == B),
              "contextual_rounds: scale must have shape [", n, " or 1, ", B, " or 1] and the dtype of the means, got ", scale.sizes());
  const auto least = candidates.min().item<int32_t>(), most = candidates.max().item<int32_t>();
  TORCH_CHECK(least >= -1 && most < M, "contextual_rounds: candidates must be -1 or item numbers below ", M, ", got ", least, " to ",
              most);
  const int64_t holds = shape[SHAPE_MEMORY];
  TORCH_CHECK((holds == MEMORY_NONE && memory_size == 0) || (holds == MEMORY_REWARD_SUMS && memory_size >= 2) ||
                  (holds == MEMORY_SCALES && memory_size == SLOT_SUM_X + 2 * d),
              "contextual_rounds: memory of type ", holds, " cannot have ", memory_size, " numbers");
  TORCH_CHECK(slots >= 0 && shape[SHAPE_FIXED_DELAY] < std::max<int64_t>(slots, 1) && shape[SHAPE_REFRESH_EVERY] > 0,
              "contextual_rounds: sizes do not fit together");
  TORCH_CHECK(slots == 0 || delays.has_value() || shape[SHAPE_FIXED_DELAY] == slots - 1,
              "contextual_rounds: a fixed delay must be ", slots - 1, ", got ", shape[SHAPE_FIXED_DELAY]);
  if (waiting) {
    const at::Tensor numbers = waiting->select(-1, WAITING_ITEM);
    TORCH_CHECK(numbers.min().item<double>() >= 0 && numbers.max().item<double>() < double(M),
                "contextual_rounds: items that wait for a reward must be below ", M);
  }
  AT_DISPATCH_FLOATING_TYPES(means.scalar_type(), "contextual_rounds", [&] {
    const auto read = [](const std::optional<at::Tensor> &t) { return t ? t->const_data_ptr<scalar_t>() : nullptr; };
    const auto write = [](const std::optional<at::Tensor> &t) { return t ? t->mutable_data_ptr<scalar_t>() : nullptr; };
    Block<scalar_t> s{};
    s.rule = rule; s.rounds = n; s.K = K; s.d = d; s.B = B; s.start = start;
    s.noise = noise.const_data_ptr<scalar_t>();
    s.uniforms = rule == THOMPSON ? nullptr : draws.const_data_ptr<double>();
    s.normals = rule == THOMPSON ? draws.const_data_ptr<scalar_t>() : nullptr;
    s.scale = scale.const_data_ptr<scalar_t>();
    s.scale_round = scale.size(0) > 1 ? scale.stride(0) : 0;
    s.scale_lane = scale.size(1) > 1 ? scale.stride(1) : 0;
    s.odds = settings[ODDS]; s.smoothing = settings[SMOOTHING]; s.epsilon = settings[EPSILON];
    s.discount = settings[DISCOUNT]; s.ridge_alpha = settings[RIDGE_ALPHA];
    s.regret = regret.mutable_data_ptr<scalar_t>();
    s.terms = write(terms);
    s.scores = write(scores);
    World<scalar_t> w{};
    w.M = M; w.size = size; w.memory_size = memory_size; w.holds = holds; w.slots = slots;
    w.fixed_delay = shape[SHAPE_FIXED_DELAY]; w.refresh_every = shape[SHAPE_REFRESH_EVERY];
    w.anchors = shape[SHAPE_ANCHORS] != 0; w.bernoulli = shape[SHAPE_BERNOULLI] != 0; w.own_items = own_items;
    w.items = items.const_data_ptr<scalar_t>();
    w.base = read(base); w.means = means.const_data_ptr<scalar_t>(); w.rotated_means = read(rotated); w.drift_rate = read(rate);
    w.candidates = candidates.const_data_ptr<int32_t>();
    w.delays = delays ? delays->const_data_ptr<int64_t>() : nullptr;
    w.statistics = statistics.mutable_data_ptr<double>();
    w.waiting = waiting ? waiting->mutable_data_ptr<double>() : nullptr;
    w.mu_hat = mu_hat.mutable_data_ptr<scalar_t>();
    w.width = width.mutable_data_ptr<scalar_t>();
    least < 0 ? play_contextual<scalar_t, true>(s, w) : play_contextual<scalar_t, false>(s, w);
  });
}

void candidates(const at::Tensor &seeds, const at::Tensor &available, const std::optional<at::Tensor> &order, int64_t num_items,
                int64_t start, const at::Tensor &out) {
  TORCH_CHECK(out.dim() == 3 && seeds.dim() == 1, "candidates: out must be (n, B, K) and seeds (B)");
  const int64_t n = out.size(0), B = out.size(1), K = out.size(2);
  const CheckTensor check{at::kLong};
  check("seeds", seeds, {B});
  check("available", available, {B});
  if (order) check("order", *order, {B, num_items});
  check("out", out, {n, B, K}, at::kInt);
  if (out.numel() == 0) return;
  TORCH_CHECK(start >= 0, "candidates: start must be at least 0, got ", start);
  TORCH_CHECK(!order || (order->min().item<int64_t>() >= 0 && order->max().item<int64_t>() < num_items),
              "candidates: order must be item numbers below ", num_items);
  TORCH_CHECK(available.min().item<int64_t>() >= 0 && available.max().item<int64_t>() <= num_items,
              "candidates: available must be at most the number of items ", num_items);
  at::parallel_for(0, n * B, 256, [&](int64_t begin, int64_t end) {
    draw_subsets(seeds.const_data_ptr<int64_t>(), available.const_data_ptr<int64_t>(),
                 order ? order->const_data_ptr<int64_t>() : nullptr, num_items, B, K, start, begin, end,
                 out.mutable_data_ptr<int32_t>());
  });
}

}  // namespace

TORCH_LIBRARY(torch_softucb, m) {
  m.def("contextual_rounds(str rule, int start, Tensor?[] world, Tensor(a!)?[] state, Tensor noise, Tensor draws, Tensor scale,"
        " float[] settings, int[] shape, Tensor(b!)?[] outputs) -> ()");
  m.def("candidates(Tensor seeds, Tensor available, Tensor? order, int num_items, int start, Tensor(a!) out) -> ()");
  m.def("rescale(Tensor arms, Tensor arm_sums, Tensor(a!) scales, Tensor(b!) mu_hat, Tensor(c!) width_sq, Tensor(d!) root,"
        " Tensor(e!)? V, Tensor(f!)? b, Tensor(g!)? offset_width_sq) -> ()");
  m.def("rounds(str rule, int start, Tensor(a!)?[] state, Tensor?[] problem, Tensor noise, Tensor draws, Tensor scale,"
        " float[] settings, Tensor(b!)?[] outputs) -> ()");
}
TORCH_LIBRARY_IMPL(torch_softucb, CPU, m) {
  m.impl("rounds", &rounds);
  m.impl("contextual_rounds", &contextual_rounds);
  m.impl("candidates", &candidates);
  m.impl("rescale", &rescale);
}
