// Many rounds of a fixed-arm rollout in one call: the eager round of simulation.py, written for the processor's caches.
//
// A tile of LANES trajectories is copied next to each other, played to the end of the stretch and copied back; every inner
// loop runs over the lanes. Eager Python is the reference: tests/test_native.py compares every kind of policy with it.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

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
  F *regret;           // (rounds, B)
  F *terms;            // (3, B) reward gradient, sum of widths, value: added to; null when nobody wants them
  F *scores;           // (SCORES, rounds, B) of types.Scores, or null
};
constexpr int64_t SCORES = 7;

template <typename F, bool SHARED, bool MASKED>
struct Tile {
  const Stretch<F> &s;
  const int64_t K, d;
  std::vector<F> memory;
  F *X, *means, *allowed, *mu, *w2, *root, *width, *S, *p, *z, *x, *w, *u;
  F gamma[LANES], fresh[LANES], best[LANES], beta[LANES], low[LANES], top[LANES], total[LANES], aux[LANES];
  F reward[LANES], r_mu[LANES], term[3][LANES];
  F low_width[LANES], top_width[LANES], turn[LANES];  // for scores: widths of i_star and of the arm of max S; dgamma / dbeta
  int64_t arm[LANES], lane_of[LANES], best_arm[LANES];

  explicit Tile(const Stretch<F> &stretch) : s(stretch), K(stretch.K), d(stretch.d) {
    memory.resize(((SHARED ? 0 : d * K) + 8 * K + d * d + 3 * d) * LANES + LANES);
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    F *next = reinterpret_cast<F *>((address + 63) / 64 * 64);
    auto take = [&](int64_t rows) { F *here = next; next += rows * LANES; return here; };
    X = take(SHARED ? 0 : d * K);
    means = take(K); allowed = take(K); mu = take(K); w2 = take(K); width = take(K); S = take(K); p = take(K); z = take(K);
    root = take(d * d); x = take(d); w = take(d); u = take(d);
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
    for (int64_t l = 0; l < LANES; ++l) arm[l] = int64_t(count[l]);
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
    for (int64_t l = 0; l < LANES; ++l) {
      best_arm[l] = 0;
      for (int64_t k = 0; k < K; ++k) if (may(k, l) > 0 && means[k * LANES + l] >= best[l]) { best_arm[l] = k; break; }
    }
    if (s.terms != nullptr) for (int64_t i = 0; i < 3; ++i) fetch(term[i], s.terms + i * s.B, 1);
    for (int64_t t = 0; t < s.rounds; ++t) {
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
      pull(t);
      if (s.kind == SOFT_LAGGED) EACH_LANE gamma[l] = fresh[l];
    }
    store(s.mu_hat, mu, K, lanes); store(s.width_sq, w2, K, lanes); store(s.root, root, d * d, lanes);
    store(s.gamma, gamma, 1, lanes);
    if (s.terms != nullptr) for (int64_t i = 0; i < 3; ++i) store(s.terms + i * s.B, term[i], 1, lanes);
  }
};

template <typename F, bool SHARED, bool MASKED>
void play_all(const Stretch<F> &s) {
  at::parallel_for(0, (s.B + LANES - 1) / LANES, 1, [&](int64_t begin, int64_t end) {
    Tile<F, SHARED, MASKED> tile(s);
    for (int64_t i = begin; i < end; ++i) tile.play(i * LANES, std::min(LANES, s.B - i * LANES));
  });
}

void rounds(int64_t kind, const at::Tensor &arms, const at::Tensor &means, const at::Tensor &best,
            const std::optional<at::Tensor> &mask, const at::Tensor &noise, const at::Tensor &draws, const at::Tensor &scale,
            double odds, double smoothing, double epsilon, at::Tensor mu_hat, at::Tensor width_sq, at::Tensor root,
            at::Tensor gamma, at::Tensor regret, const std::optional<at::Tensor> &terms,
            const std::optional<at::Tensor> &scores) {
  for (const auto &t : {arms, means, best, noise, draws, mu_hat, width_sq, root, gamma, regret})
    TORCH_CHECK(t.is_contiguous() && t.is_cpu() && t.scalar_type() == means.scalar_type(), "rounds: not contiguous, or mixed");
  const int64_t n = noise.size(0), K = means.size(0), B = means.size(1), d = root.size(0);
  TORCH_CHECK(scale.dim() == 2 && scale.scalar_type() == means.scalar_type(), "rounds: scale must be (n or 1, B or 1)");
  TORCH_CHECK(!scores || (scores->is_contiguous() && scores->numel() == SCORES * n * B), "rounds: scores do not fit");
  TORCH_CHECK(draws.numel() == n * B * (kind == THOMPSON ? d : 1) && regret.numel() == n * B, "rounds: draws do not fit");
  AT_DISPATCH_FLOATING_TYPES(means.scalar_type(), "rounds", [&] {
    const Stretch<scalar_t> s{
        kind, n, K, d, B, arms.const_data_ptr<scalar_t>(), means.const_data_ptr<scalar_t>(), best.const_data_ptr<scalar_t>(),
        mask ? mask->const_data_ptr<bool>() : nullptr, noise.const_data_ptr<scalar_t>(), draws.const_data_ptr<scalar_t>(),
        scale.const_data_ptr<scalar_t>(), scale.size(0) > 1 ? scale.stride(0) : 0, scale.size(1) > 1 ? scale.stride(1) : 0,
        odds, smoothing, epsilon, mu_hat.mutable_data_ptr<scalar_t>(), width_sq.mutable_data_ptr<scalar_t>(),
        root.mutable_data_ptr<scalar_t>(), gamma.mutable_data_ptr<scalar_t>(), regret.mutable_data_ptr<scalar_t>(),
        terms ? terms->mutable_data_ptr<scalar_t>() : nullptr, scores ? scores->mutable_data_ptr<scalar_t>() : nullptr};
    const bool shared = arms.dim() == 2;
    if (shared && mask) play_all<scalar_t, true, true>(s);
    else if (shared) play_all<scalar_t, true, false>(s);
    else if (mask) play_all<scalar_t, false, true>(s);
    else play_all<scalar_t, false, false>(s);
  });
}

}  // namespace

TORCH_LIBRARY(torch_softucb, m) {
  m.def("rounds(int kind, Tensor arms, Tensor means, Tensor best, Tensor? mask, Tensor noise, Tensor draws, Tensor scale,"
        " float odds, float smoothing, float epsilon, Tensor(a!) mu_hat, Tensor(b!) width_sq, Tensor(c!) root,"
        " Tensor(d!) gamma, Tensor(e!) regret, Tensor(f!)? terms, Tensor(g!)? scores) -> ()");
}
TORCH_LIBRARY_IMPL(torch_softucb, CPU, m) { m.impl("rounds", &rounds); }
