// Many rounds of a fixed-arm rollout in one call: the eager round of simulation.py, written for the processor's caches.
//
// A tile of LANES trajectories is copied next to each other, played to the end of the stretch and copied back; every inner
// loop runs over the lanes. Eager Python is the reference: tests/test_native.py compares every kind of policy with it.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

namespace {

constexpr int64_t LANES = 16;
enum Kind : int64_t { SOFT_CURRENT, SOFT_LAGGED, SOFT_SMOOTH, GREEDY, THOMPSON };  // the order of native/__init__.py

#define EACH_LANE _Pragma("omp simd") for (int64_t l = 0; l < LANES; ++l)

template <typename F>
struct Stretch {  // what a call is about; every tensor contiguous, trajectories innermost
  int64_t kind, rounds, K, d, B;
  const F *arms;       // (K, d) or (d, K, B)
  const F *means;      // (K, B)
  const F *best;       // (B)
  const bool *mask;    // (K, B) or null
  const F *noise;      // (rounds, B)
  const F *draws;      // (rounds, B) uniform, or (rounds, d, B) normal
  const F *scale;      // beta or Thompson's scale, by the two strides
  int64_t scale_round, scale_lane;
  double odds, smoothing, epsilon;
  F *mu_hat, *width_sq, *root, *gamma;  // (K, B), (K, B), (d, d, B), (B): carried forward
  const F *turned, *turn;  // (K, B), (B): means that drift, or null
  int64_t start;       // the first round's number
  F *V, *b;            // (d, d, B), (d, B): of play that forgets, or null
  double discount, ridge_alpha;
  F *tally;            // (4, B) of fixed_arms.py, or null
  F *regret;           // (rounds, B)
  F *terms;            // (3, B) reward gradient, sum of widths, value: added to; null when nobody wants them
  F *scores;           // (SCORES, rounds, B) of types.Scores, or null
};
constexpr int64_t SCORES = 11;
constexpr int64_t TALLY = 4;

template <typename F, bool SHARED, bool MASKED>
struct Tile {
  const Stretch<F> &s;
  const int64_t K, d;
  std::vector<F> memory;
  F *X, *means, *allowed, *mu, *w2, *root, *width, *S, *p, *z, *x, *w, *u;
  F *origin, *turned, *V, *b, *L;  // of means that drift, and of play that forgets
  F gamma[LANES], fresh[LANES], best[LANES], beta[LANES], low[LANES], top[LANES], total[LANES], aux[LANES];
  F reward[LANES], r_mu[LANES], term[3][LANES], turn_by[LANES], tally[TALLY][LANES];
  F soft_count[LANES] = {};  // n of the smooth coldness
  F failed[LANES] = {};  // 1: V could not be factorised
  F low_width[LANES], top_width[LANES], turn[LANES];  // for scores: widths of i_star and of the arm of max S; dgamma / dbeta
  int64_t arm[LANES], lane_of[LANES], best_arm[LANES];

  explicit Tile(const Stretch<F> &stretch) : s(stretch), K(stretch.K), d(stretch.d) {
    const int64_t drift = s.turned != nullptr ? K : 0, forget = s.V != nullptr ? d : 0;
    memory.resize(((SHARED ? 0 : d * K) + 8 * K + d * d + 3 * d + 2 * drift + 2 * forget * d + forget) * LANES + LANES);
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    F *next = reinterpret_cast<F *>((address + 63) / 64 * 64);
    auto take = [&](int64_t rows) { F *here = next; next += rows * LANES; return here; };
    X = take(SHARED ? 0 : d * K);
    means = take(K); allowed = take(K); mu = take(K); w2 = take(K); width = take(K); S = take(K); p = take(K); z = take(K);
    root = take(d * d); x = take(d); w = take(d); u = take(d);
    origin = take(drift); turned = take(drift); V = take(forget * d); L = take(forget * d); b = take(forget);
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
  F may(int64_t k, int64_t l) const { return MASKED ? allowed[k * LANES + l] : F(1); }

  void soft() {  // Eqs. 6-9: p, not yet divided by its sum
    constexpr F lowest = std::numeric_limits<F>::lowest();
    EACH_LANE low[l] = top[l] = lowest;
    EACH_LANE aux[l] = 0;
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F radius = beta[l] * width[k * LANES + l], lower = mu[k * LANES + l] - radius;
      S[k * LANES + l] = mu[k * LANES + l] + radius;
      const F value = may(k, l) > 0 ? lower : lowest;
      low_width[l] = value > low[l] ? width[k * LANES + l] : low_width[l];
      low[l] = value > low[l] ? value : low[l];
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F index = S[k * LANES + l] - low[l], value = may(k, l) > 0 ? index : lowest;
      S[k * LANES + l] = index;
      top_width[l] = value > top[l] ? width[k * LANES + l] : top_width[l];
      top[l] = value > top[l] ? value : top[l];
      aux[l] += index < 0 ? may(k, l) : F(0);  // |L|
    }
    const F odds = F(s.odds);
    constexpr F least = sizeof(F) == 4 ? -60 : -600;  // beyond, exp is nothing beside rounding, and subnormal numbers are slow
    if (s.kind == SOFT_SMOOTH) {
      EACH_LANE total[l] = 0;
      for (int64_t k = 0; k < K; ++k) EACH_LANE {
        const F above = S[k * LANES + l] > 0 ? S[k * LANES + l] : F(0);
        const F share = -above / (F(s.smoothing) * (top[l] > 0 ? top[l] : F(1)));
        total[l] += may(k, l) * std::exp(share > least ? share : least);
      }
      EACH_LANE fresh[l] = top[l] > 0 ? std::log1p(total[l] * odds) / top[l] : F(0);
      EACH_LANE soft_count[l] = total[l];
    } else {
      EACH_LANE {
        const bool defined = aux[l] > 0 && top[l] > 0;
        fresh[l] = defined ? std::log((aux[l] > 1 ? aux[l] : F(1)) * odds) / (defined ? top[l] : F(1)) : F(0);
      }
    }
    if (s.kind != SOFT_LAGGED) EACH_LANE gamma[l] = fresh[l];
    if (s.scores != nullptr) cool();
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F logit = gamma[l] * ((may(k, l) > 0 ? S[k * LANES + l] : top[l]) - top[l]);
      p[k * LANES + l] = may(k, l) * std::exp(logit > least ? logit : least);
    }
  }

  void cool() {  // functional.logit_slope: turn = dgamma / dbeta
    constexpr F least = sizeof(F) == 4 ? -60 : -600;
    F safe[LANES], rise[LANES];
    EACH_LANE {
      safe[l] = top[l] > 0 ? top[l] : F(1);
      rise[l] = (top_width[l] + low_width[l]) / safe[l];
      turn[l] = -gamma[l] * rise[l];
    }
    if (s.kind == SOFT_SMOOTH) {
      F moved[LANES] = {};
      const F odds = F(s.odds), kappa = F(s.smoothing);
      for (int64_t k = 0; k < K; ++k) EACH_LANE {
        const F above = S[k * LANES + l] > 0 ? S[k * LANES + l] : F(0), share = -above / (kappa * safe[l]);
        const F step = above > 0 ? width[k * LANES + l] + low_width[l] - above * rise[l] : F(0);
        moved[l] += may(k, l) * std::exp(share > least ? share : least) * step;
      }
      EACH_LANE turn[l] -= odds * moved[l] / (kappa * safe[l]) / (1 + odds * total[l]) / safe[l];
    }
    EACH_LANE turn[l] = top[l] > 0 ? turn[l] : F(0);
  }

  void face(int64_t t) {  // BanditProblem.means_at
    F c[LANES], q[LANES];
    EACH_LANE { c[l] = std::cos(turn_by[l] * F(s.start + t)); q[l] = std::sin(turn_by[l] * F(s.start + t)); }
    EACH_LANE best[l] = std::numeric_limits<F>::lowest();
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F mean = c[l] * origin[k * LANES + l] + q[l] * turned[k * LANES + l];
      means[k * LANES + l] = mean;
      best[l] = may(k, l) > 0 && mean > best[l] ? mean : best[l];
    }
  }
  void find_best() {
    for (int64_t l = 0; l < LANES; ++l) {
      best_arm[l] = 0;
      for (int64_t k = 0; k < K; ++k) if (may(k, l) > 0 && means[k * LANES + l] >= best[l]) { best_arm[l] = k; break; }
    }
  }

  void keep_scores(int64_t t, int64_t lanes) {  // functional.trajectory_score, and what the control variate looks at
    F mean[LANES] = {}, present[LANES] = {}, wide[LANES] = {}, expected[LANES] = {}, inside[LANES] = {}, every[LANES] = {};
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F share = p[k * LANES + l] / total[l], slope = turn[l] * S[k * LANES + l] + gamma[l] * width[k * LANES + l];
      mean[l] += share * slope;
      present[l] += share * means[k * LANES + l] * slope;
      expected[l] += share * means[k * LANES + l];
      wide[l] += share * width[k * LANES + l];
      const F off = std::abs(means[k * LANES + l] - mu[k * LANES + l]);
      inside[l] += off <= beta[l] * width[k * LANES + l] ? may(k, l) : F(0);
      every[l] += may(k, l);
    }
    F sharp[LANES], s_mean[LANES] = {}, s_present[LANES] = {}, value[LANES] = {}, spread[LANES] = {}, widths[LANES] = {};
    EACH_LANE {  // functional.delta_slope: S times this
      const F scaled = F(s.odds) * soft_count[l];
      const F share = s.kind == SOFT_SMOOTH ? scaled / (1 + scaled) : (aux[l] > 0 ? F(1) : F(0));
      sharp[l] = top[l] > 0 ? share / top[l] : F(0);
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F share = p[k * LANES + l] / total[l], slope = sharp[l] * S[k * LANES + l];
      s_mean[l] += share * slope;
      s_present[l] += share * means[k * LANES + l] * slope;
      value[l] += share * mu[k * LANES + l];
      widths[l] += may(k, l) * width[k * LANES + l];
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE
      spread[l] += (mu[k * LANES + l] - value[l]) * p[k * LANES + l] / total[l] * width[k * LANES + l];
    const int64_t plane = s.rounds * s.B;
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t at = arm[l] * LANES + l, top_at = best_arm[l] * LANES + l;
      F *to = s.scores + t * s.B + lane_of[l];
      to[0] = present[l] - mean[l] * expected[l];
      to[plane] = turn[l] * S[at] + gamma[l] * width[at] - mean[l];
      to[2 * plane] = p[top_at] / total[l];
      to[3 * plane] = S[top_at];
      to[4 * plane] = width[top_at];
      to[5 * plane] = wide[l];
      to[6 * plane] = inside[l] / every[l];
      to[7 * plane] = s_present[l] - s_mean[l] * expected[l];
      to[8 * plane] = sharp[l] * S[at] - s_mean[l];
      to[9 * plane] = gamma[l] * spread[l];
      to[10 * plane] = widths[l];
    }
  }

  void greedy() {  // arms that tie share 1 - epsilon, all allowed arms share epsilon
    constexpr F lowest = std::numeric_limits<F>::lowest(), ulps = 16 * std::numeric_limits<F>::epsilon();
    EACH_LANE top[l] = lowest;
    EACH_LANE low[l] = aux[l] = 0;
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F index = mu[k * LANES + l] + beta[l] * width[k * LANES + l];
      S[k * LANES + l] = may(k, l) > 0 ? index : lowest;
      top[l] = S[k * LANES + l] > top[l] ? S[k * LANES + l] : top[l];
    }
    EACH_LANE total[l] = top[l] - ulps * std::abs(top[l]);
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      p[k * LANES + l] = S[k * LANES + l] >= total[l] ? may(k, l) : F(0);
      low[l] += p[k * LANES + l];
      aux[l] += may(k, l);
    }
    const F epsilon = F(s.epsilon);
    for (int64_t k = 0; k < K; ++k) EACH_LANE
      p[k * LANES + l] = (1 - epsilon) * p[k * LANES + l] / low[l] + epsilon * may(k, l) / aux[l];
  }

  void draw(int64_t t) {  // the first arm whose cumulated probability exceeds the uniform number's share of the total
    EACH_LANE total[l] = 0;
    for (int64_t k = 0; k < K; ++k) EACH_LANE { total[l] += p[k * LANES + l]; z[k * LANES + l] = total[l]; }
    F below[LANES], count[LANES];
    EACH_LANE {
      const F share = s.draws[t * s.B + lane_of[l]] * total[l], most = total[l] * (1 - std::numeric_limits<F>::epsilon());
      below[l] = share < total[l] ? share : most;
      count[l] = 0;
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE count[l] += z[k * LANES + l] <= below[l] ? F(1) : F(0);
    for (int64_t l = 0; l < LANES; ++l) arm[l] = std::min(int64_t(count[l]), K - 1);
    F expected[LANES] = {}, value[LANES] = {}, spread[LANES] = {}, widths[LANES] = {};
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      expected[l] += p[k * LANES + l] * means[k * LANES + l];
      value[l] += p[k * LANES + l] * mu[k * LANES + l];
      widths[l] += may(k, l) * width[k * LANES + l];
    }
    EACH_LANE { value[l] /= total[l]; reward[l] = best[l] - expected[l] / total[l]; }  // Eq. 2, kept in reward for now
    if (s.terms == nullptr) return;
    for (int64_t k = 0; k < K; ++k) EACH_LANE
      spread[l] += (mu[k * LANES + l] - value[l]) * p[k * LANES + l] * width[k * LANES + l];
    EACH_LANE {
      term[0][l] += gamma[l] * spread[l] / total[l];  // Eq. 13, one round
      term[1][l] += widths[l];
      term[2][l] += value[l];
    }
  }

  void thompson(int64_t t) {  // the best arm of theta ~ N(theta_hat, scale^2 V^-1)
    for (int64_t j = 0; j < d; ++j) for (int64_t l = 0; l < LANES; ++l) x[j * LANES + l] = s.draws[(t * d + j) * s.B + lane_of[l]];
    times_root(x, u);
    project(u, S);
    EACH_LANE top[l] = std::numeric_limits<F>::lowest();
    F chosen[LANES] = {};
    for (int64_t k = 0; k < K; ++k) EACH_LANE {
      const F index = mu[k * LANES + l] + beta[l] * S[k * LANES + l];
      const bool better = may(k, l) > 0 && index > top[l];
      top[l] = better ? index : top[l];
      chosen[l] = better ? F(k) : chosen[l];
    }
    for (int64_t l = 0; l < LANES; ++l) {
      arm[l] = int64_t(chosen[l]);
      reward[l] = best[l] - means[arm[l] * LANES + l];
    }
  }

  void forget(int64_t t) {  // fixed_arms.ForgettingArms.pull
    const F rho = F(s.discount), ridge = F((1 - s.discount) * s.ridge_alpha);
    F y[LANES];
    for (int64_t l = 0; l < LANES; ++l) {
      const int64_t at = arm[l] * LANES + l;
      y[l] = means[at] + s.noise[t * s.B + lane_of[l]];
      for (int64_t j = 0; j < d; ++j) x[j * LANES + l] = SHARED ? s.arms[arm[l] * d + j] : X[j * K * LANES + at];
    }
    for (int64_t i = 0; i < d; ++i) {
      EACH_LANE b[i * LANES + l] = rho * b[i * LANES + l] + x[i * LANES + l] * y[l];
      for (int64_t j = 0; j < d; ++j) {
        F *v = V + (i * d + j) * LANES;
        const F own = i == j ? ridge : F(0);
        EACH_LANE v[l] = rho * v[l] + own + x[i * LANES + l] * x[j * LANES + l];
      }
    }
    F log_det[LANES] = {};
    for (int64_t j = 0; j < d; ++j) {  // V = L L^T
      F diagonal[LANES];
      EACH_LANE diagonal[l] = V[(j * d + j) * LANES + l];
      for (int64_t k = 0; k < j; ++k) EACH_LANE diagonal[l] -= L[(j * d + k) * LANES + l] * L[(j * d + k) * LANES + l];
      EACH_LANE {  // no factor: the lane goes on with a 1, and is marked
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
    for (int64_t i = 0; i < d; ++i) {  // w = root^T b, u = theta_hat
      F sum[LANES] = {};
      for (int64_t j = 0; j <= i; ++j) EACH_LANE sum[l] += root[(j * d + i) * LANES + l] * b[j * LANES + l];
      EACH_LANE { w[i * LANES + l] = sum[l]; explained[l] += sum[l] * sum[l]; }
    }
    times_root(w, u);
    project(u, mu);
    for (int64_t k = 0; k < K; ++k) EACH_LANE w2[k * LANES + l] = 0;
    for (int64_t i = 0; i < d; ++i) {  // |root^T x_k|^2, a column of root at a time
      for (int64_t j = 0; j < d; ++j) EACH_LANE u[j * LANES + l] = root[(j * d + i) * LANES + l];
      project(u, z);
      for (int64_t k = 0; k < K; ++k) EACH_LANE w2[k * LANES + l] += z[k * LANES + l] * z[k * LANES + l];
    }
    if (s.tally == nullptr) return;
    const F fresh_det = F(d * std::log(s.ridge_alpha));
    EACH_LANE {
      tally[0][l] = rho * tally[0][l] + 1;
      tally[3][l] = rho * tally[3][l] + y[l] * y[l];
      const F left = tally[3][l] - explained[l];
      tally[1][l] = left > 0 ? left : F(0);
      tally[2][l] = log_det[l] - fresh_det;
    }
  }

  void pull(int64_t t) {
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
    if (s.tally != nullptr) EACH_LANE {
      tally[0][l] += 1;
      tally[1][l] += r_mu[l] * r_mu[l] / q[l];
      tally[2][l] += std::log(q[l]);
    }
    EACH_LANE { residual[l] = r_mu[l] / q[l]; step[l] = 1 / (q[l] + std::sqrt(q[l])); q[l] = 1 / q[l]; }
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
    for (int64_t l = 0; l < LANES; ++l) lane_of[l] = first + (l < lanes ? l : lanes - 1);  // spare lanes repeat the last
    if (!SHARED) fetch(X, s.arms, d * K);
    if (MASKED) for (int64_t k = 0; k < K; ++k) for (int64_t l = 0; l < LANES; ++l)
      allowed[k * LANES + l] = s.mask[k * s.B + lane_of[l]] ? F(1) : F(0);
    fetch(means, s.means, K); fetch(mu, s.mu_hat, K); fetch(w2, s.width_sq, K); fetch(root, s.root, d * d);
    fetch(gamma, s.gamma, 1); fetch(best, s.best, 1);
    if (s.turned != nullptr) { fetch(origin, s.means, K); fetch(turned, s.turned, K); fetch(turn_by, s.turn, 1); }
    if (s.V != nullptr) { fetch(V, s.V, d * d); fetch(b, s.b, d); }
    if (s.tally != nullptr) for (int64_t i = 0; i < TALLY; ++i) fetch(tally[i], s.tally + i * s.B, 1);
    find_best();
    EACH_LANE failed[l] = 0;
    if (s.terms != nullptr) for (int64_t i = 0; i < 3; ++i) fetch(term[i], s.terms + i * s.B, 1);
    for (int64_t t = 0; t < s.rounds; ++t) {
      if (s.turned != nullptr) { face(t); find_best(); }
      for (int64_t l = 0; l < LANES; ++l) beta[l] = s.scale[t * s.scale_round + lane_of[l] * s.scale_lane];
      if (s.kind == THOMPSON) {
        thompson(t);
      } else {
        for (int64_t i = 0; i < K * LANES; ++i) width[i] = std::sqrt(w2[i]);
        s.kind == GREEDY ? greedy() : soft();
        draw(t);
        if (s.scores != nullptr) keep_scores(t, lanes);
      }
      for (int64_t l = 0; l < lanes; ++l) s.regret[t * s.B + lane_of[l]] = reward[l];
      s.V != nullptr ? forget(t) : pull(t);
      if (s.kind == SOFT_LAGGED) EACH_LANE gamma[l] = fresh[l];
    }
    for (int64_t k = 0; k < K; ++k) EACH_LANE w2[k * LANES + l] = failed[l] > 0 ? F(-1) : w2[k * LANES + l];  // FixedArms.check
    store(s.mu_hat, mu, K, lanes); store(s.width_sq, w2, K, lanes); store(s.root, root, d * d, lanes);
    store(s.gamma, gamma, 1, lanes);
    if (s.V != nullptr) { store(s.V, V, d * d, lanes); store(s.b, b, d, lanes); }
    if (s.tally != nullptr) for (int64_t i = 0; i < TALLY; ++i) store(s.tally + i * s.B, tally[i], 1, lanes);
    if (s.terms != nullptr) for (int64_t i = 0; i < 3; ++i) store(s.terms + i * s.B, term[i], 1, lanes);
  }
};

template <typename F, bool SHARED, bool MASKED>
void play_all(const Stretch<F> &s) {
  const int64_t tiles = (s.B + LANES - 1) / LANES;
  std::atomic<int64_t> next{0};  // whoever is free takes the next tile: a core that is shared with others holds up nobody
  at::parallel_for(0, std::min<int64_t>(tiles, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    Tile<F, SHARED, MASKED> tile(s);
    for (int64_t i = next++; i < tiles; i = next++) tile.play(i * LANES, std::min(LANES, s.B - i * LANES));
  });
}

void rounds(int64_t kind, const at::Tensor &arms, const at::Tensor &means, const at::Tensor &best,
            const std::optional<at::Tensor> &mask, const std::optional<at::Tensor> &turned,
            const std::optional<at::Tensor> &turn, int64_t start, const at::Tensor &noise, const at::Tensor &draws, const at::Tensor &scale,
            double odds, double smoothing, double epsilon, at::Tensor mu_hat, at::Tensor width_sq, at::Tensor root,
            const std::optional<at::Tensor> &V, const std::optional<at::Tensor> &b, double discount, double ridge_alpha,
            const std::optional<at::Tensor> &tally, at::Tensor gamma, at::Tensor regret, const std::optional<at::Tensor> &terms,
            const std::optional<at::Tensor> &scores) {
  for (const auto &t : {arms, means, best, noise, draws, mu_hat, width_sq, root, gamma, regret})
    TORCH_CHECK(t.is_contiguous() && t.is_cpu() && t.scalar_type() == means.scalar_type(), "rounds: not contiguous, or mixed");
  for (const auto *t : {&turned, &turn, &V, &b, &tally})
    TORCH_CHECK(!*t || ((*t)->is_contiguous() && (*t)->scalar_type() == means.scalar_type()), "rounds: not contiguous, or mixed");
  const int64_t n = noise.size(0), K = means.size(0), B = means.size(1), d = root.size(0);
  TORCH_CHECK(scale.dim() == 2 && scale.scalar_type() == means.scalar_type(), "rounds: scale must be (n or 1, B or 1)");
  TORCH_CHECK((scale.size(0) == 1 || scale.size(0) == n) && (scale.size(1) == 1 || scale.size(1) == B), "rounds: scale does not fit");
  TORCH_CHECK(!scores || (scores->is_contiguous() && scores->numel() == SCORES * n * B), "rounds: scores do not fit");
  TORCH_CHECK(draws.numel() == n * B * (kind == THOMPSON ? d : 1) && regret.numel() == n * B, "rounds: draws do not fit");
  AT_DISPATCH_FLOATING_TYPES(means.scalar_type(), "rounds", [&] {
    const auto read = [](const std::optional<at::Tensor> &t) { return t ? t->const_data_ptr<scalar_t>() : nullptr; };
    const auto write = [](const std::optional<at::Tensor> &t) { return t ? t->mutable_data_ptr<scalar_t>() : nullptr; };
    const Stretch<scalar_t> s{
        kind, n, K, d, B, arms.const_data_ptr<scalar_t>(), means.const_data_ptr<scalar_t>(), best.const_data_ptr<scalar_t>(),
        mask ? mask->const_data_ptr<bool>() : nullptr, noise.const_data_ptr<scalar_t>(), draws.const_data_ptr<scalar_t>(),
        scale.const_data_ptr<scalar_t>(), scale.size(0) > 1 ? scale.stride(0) : 0, scale.size(1) > 1 ? scale.stride(1) : 0,
        odds, smoothing, epsilon, mu_hat.mutable_data_ptr<scalar_t>(), width_sq.mutable_data_ptr<scalar_t>(),
        root.mutable_data_ptr<scalar_t>(), gamma.mutable_data_ptr<scalar_t>(), read(turned), read(turn), start, write(V),
        write(b), discount, ridge_alpha, write(tally), regret.mutable_data_ptr<scalar_t>(), write(terms), write(scores)};
    const bool shared = arms.dim() == 2;
    if (shared && mask) play_all<scalar_t, true, true>(s);
    else if (shared) play_all<scalar_t, true, false>(s);
    else if (mask) play_all<scalar_t, false, true>(s);
    else play_all<scalar_t, false, false>(s);
  });
}

}  // namespace

TORCH_LIBRARY(torch_softucb, m) {
  m.def("rounds(int kind, Tensor arms, Tensor means, Tensor best, Tensor? mask, Tensor? turned, Tensor? turn, int start,"
        " Tensor noise, Tensor draws, Tensor scale, float odds, float smoothing, float epsilon, Tensor(a!) mu_hat,"
        " Tensor(b!) width_sq, Tensor(c!) root, Tensor(h!)? V, Tensor(i!)? b, float discount, float ridge_alpha,"
        " Tensor(j!)? tally, Tensor(d!) gamma, Tensor(e!) regret, Tensor(f!)? terms, Tensor(g!)? scores) -> ()");
}
TORCH_LIBRARY_IMPL(torch_softucb, CPU, m) { m.impl("rounds", &rounds); }
