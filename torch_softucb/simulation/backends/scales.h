// Estimates offset, noise and prior scale of a tile of trajectories from the plays and rewards of each arm, and recomputes
// their estimates of the arms: Rescale.apply. A tridiagonal form of sum x x^T stands in for its eigenvalues, so that a value of
// rho costs O(d). All arithmetic is in double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

constexpr int64_t SCALE_LANES = 16;
#define EACH_SCALE_LANE _Pragma("omp simd") for (int64_t l = 0; l < SCALE_LANES; ++l)

// functional.scales: grids of log10 rho over the mean squared feature length, its prior, and limits
constexpr int64_t GRID_LOW = -5, GRID_HIGH = 4, COARSE = GRID_HIGH - GRID_LOW + 1, FINE = 13;
constexpr double GRID_SPREAD = 1.5, CAUTION = 0.75, NOISE_FLOOR = 1e-3, FEWEST = 3, ALL_EQUAL = 1.0 / (1LL << 48), SMALL = 1e-300;

constexpr int64_t HALF = SCALE_LANES / 2;
typedef double Lanes __attribute__((vector_size(HALF * sizeof(double))));  // half a tile: sums over arms stay in registers

template <typename F>
inline Lanes lanes_at(const F *from) {
  typedef F Given __attribute__((vector_size(HALF * sizeof(F))));
  Given given;
  __builtin_memcpy(&given, from, sizeof given);
  return __builtin_convertvector(given, Lanes);
}

template <typename F>
struct ScaleBlock {
  int64_t K, d, B;
  bool shared;
  const F *arms;     // (K, d) or (d, K, B)
  double *arm_sums;  // (B, K, 3)
  double *scales;    // (SCALE_COUNT, B)
  F *mu_hat, *width_sq, *root;  // (K, B), (K, B), (d, d, B)
  F *V, *b;          // (d, d, B), (d, B), or null
  F *offset_width_sq;  // (K, B), or null
};

template <typename F>
struct ScaleTile {
  static constexpr int64_t N = SCALE_LANES;
  const ScaleBlock<F> &s;
  const int64_t K, d;
  std::vector<double> memory;
  std::vector<F> features;  // (K, d, N): arms of the tile, gathered once
  std::vector<const F *> rows;  // features of the arms that were played
  std::vector<double> counts, sums, weighted;  // (K, N) each: plays, rewards, plays times a feature
  double *gram, *A, *diagonal, *off, *zx, *zy, *sum_x, *moment, *v, *p, *pivot, *L, *root, *direction;
  alignas(64) double n[N], sum_y[N], energy[N], unit[N], mean[N], spread[N], power[N], rho[N], noise[N], offset[N], base[N];
  double error[N], c[N], a[N], evidence[N], log_det[N];
  bool known[N], gathered = false;
  int64_t lane_of[N];

  explicit ScaleTile(const ScaleBlock<F> &block) : s(block), K(block.K), d(block.d) {
    memory.resize((4 * d * d + 10 * d) * N + 8);
    features.resize(K * d * N);
    rows.resize(K);
    for (auto *each : {&counts, &sums, &weighted}) each->resize(K * N);
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    double *next = reinterpret_cast<double *>((address + 63) / 64 * 64);
    auto take = [&](int64_t rows) { double *here = next; next += rows * N; return here; };
    gram = take(d * d); A = take(d * d); L = take(d * d); root = take(d * d);
    diagonal = take(d); off = take(d); zx = take(d); zy = take(d); sum_x = take(d); moment = take(d); v = take(d); p = take(d);
    pivot = take(d); direction = take(d);
  }

  void gather(int64_t lanes) {
    if (s.shared && gathered) return;
    for (int64_t j = 0; j < d; ++j) for (int64_t k = 0; k < K; ++k) {
      F *to = features.data() + (k * d + j) * N;
      if (s.shared) {
        std::fill(to, to + N, s.arms[k * d + j]);
        continue;
      }
      const F *from = s.arms + (j * K + k) * s.B + lane_of[0];
      std::copy(from, from + lanes, to);
      std::fill(to + lanes, to + N, from[lanes - 1]);
    }
    gathered = true;
  }

  template <int64_t COLUMNS>  // several at a time: one sum alone would wait for its own additions
  void add_products(int64_t i, int64_t j, int64_t played) {
    Lanes low[COLUMNS] = {}, high[COLUMNS] = {};
    for (int64_t k = 0; k < played; ++k) {
      const double *of = weighted.data() + k * N;
      const F *x = rows[k] + j * N;
      const Lanes first = lanes_at(of), second = lanes_at(of + HALF);
      for (int64_t m = 0; m < COLUMNS; ++m) {
        low[m] += first * lanes_at(x + m * N);
        high[m] += second * lanes_at(x + m * N + HALF);
      }
    }
    for (int64_t m = 0; m < COLUMNS; ++m) {
      __builtin_memcpy(gram + (i * d + j + m) * N, &low[m], sizeof low[m]);
      __builtin_memcpy(gram + (i * d + j + m) * N + HALF, &high[m], sizeof high[m]);
    }
  }

  void sum_up() {
    EACH_SCALE_LANE n[l] = sum_y[l] = energy[l] = 0;
    int64_t played = 0;  // arms that some lane has played
    for (int64_t k = 0; k < K; ++k) {
      double *count = counts.data() + played * N, *sum = sums.data() + played * N, squares[N];
      for (int64_t l = 0; l < N; ++l) {
        const double *of = s.arm_sums + 3 * (lane_of[l] * K + k);
        count[l] = of[0]; sum[l] = of[1]; squares[l] = of[2];
      }
      double any = 0;
      EACH_SCALE_LANE { n[l] += count[l]; sum_y[l] += sum[l]; energy[l] += squares[l]; }
      for (int64_t l = 0; l < N; ++l) any += count[l];
      if (any > 0) rows[played++] = features.data() + k * d * N;
    }
    for (int64_t i = 0; i < d; ++i) {
      double of_x[N] = {}, of_y[N] = {};
      for (int64_t k = 0; k < played; ++k) {
        const F *x = rows[k] + i * N;
        const double *count = counts.data() + k * N, *sum = sums.data() + k * N;
        double *to = weighted.data() + k * N;
        EACH_SCALE_LANE { to[l] = count[l] * x[l]; of_x[l] += to[l]; of_y[l] += sum[l] * x[l]; }
      }
      EACH_SCALE_LANE { sum_x[i * N + l] = of_x[l]; moment[i * N + l] = of_y[l]; }
      int64_t j = 0;
      for (; j + 4 <= i + 1; j += 4) add_products<4>(i, j, played);
      for (; j <= i; ++j) add_products<1>(i, j, played);
    }
    double trace[N] = {};
    for (int64_t i = 0; i < d; ++i) EACH_SCALE_LANE trace[l] += gram[(i * d + i) * N + l];
    EACH_SCALE_LANE {
      const double once = n[l] > 1 ? n[l] : 1.0, length = trace[l] / once;
      unit[l] = length > 0 ? length : 1.0;
      mean[l] = sum_y[l] / once;
      spread[l] = energy[l] - sum_y[l] * mean[l];
    }
    for (int64_t l = 0; l < N; ++l) known[l] = n[l] >= FEWEST && spread[l] > ALL_EQUAL * energy[l];
  }

  void tridiagonalise() {  // Householder reflections of gram, applied to sum_x and moment as well
    std::copy(gram, gram + d * d * N, A);
    std::copy(sum_x, sum_x + d * N, zx);
    std::copy(moment, moment + d * N, zy);
    for (int64_t k = 0; k + 2 < d; ++k) {
      double norm[N] = {}, scale[N], vp[N] = {}, x_v[N] = {}, y_v[N] = {};
      for (int64_t i = k + 1; i < d; ++i) EACH_SCALE_LANE norm[l] += A[(i * d + k) * N + l] * A[(i * d + k) * N + l];
      EACH_SCALE_LANE norm[l] = std::sqrt(norm[l]);
      for (int64_t i = k + 1; i < d; ++i) EACH_SCALE_LANE v[i * N + l] = A[(i * d + k) * N + l];
      EACH_SCALE_LANE {
        const double first = v[(k + 1) * N + l], alpha = first > 0 ? -norm[l] : norm[l];
        v[(k + 1) * N + l] = first - alpha;
        const double half = norm[l] * (norm[l] + std::abs(first));  // |v|^2 / 2
        scale[l] = half > SMALL ? 1 / half : 0.0;
        A[((k + 1) * d + k) * N + l] = half > SMALL ? alpha : first;
      }
      for (int64_t i = k + 1; i < d; ++i) EACH_SCALE_LANE p[i * N + l] = 0;
      for (int64_t i = k + 1; i < d; ++i) {  // p = A v scale; A is stored in its lower triangle
        for (int64_t j = k + 1; j < i; ++j) EACH_SCALE_LANE {
          p[i * N + l] += A[(i * d + j) * N + l] * v[j * N + l];
          p[j * N + l] += A[(i * d + j) * N + l] * v[i * N + l];
        }
        EACH_SCALE_LANE p[i * N + l] += A[(i * d + i) * N + l] * v[i * N + l];
      }
      for (int64_t i = k + 1; i < d; ++i) EACH_SCALE_LANE {
        p[i * N + l] *= scale[l];
        vp[l] += v[i * N + l] * p[i * N + l];
        x_v[l] += zx[i * N + l] * v[i * N + l];
        y_v[l] += zy[i * N + l] * v[i * N + l];
      }
      EACH_SCALE_LANE { vp[l] *= 0.5 * scale[l]; x_v[l] *= scale[l]; y_v[l] *= scale[l]; }
      for (int64_t i = k + 1; i < d; ++i) EACH_SCALE_LANE {
        p[i * N + l] -= vp[l] * v[i * N + l];
        zx[i * N + l] -= x_v[l] * v[i * N + l];
        zy[i * N + l] -= y_v[l] * v[i * N + l];
      }
      for (int64_t i = k + 1; i < d; ++i) for (int64_t j = k + 1; j <= i; ++j)
        EACH_SCALE_LANE A[(i * d + j) * N + l] -= v[i * N + l] * p[j * N + l] + p[i * N + l] * v[j * N + l];
    }
    for (int64_t i = 0; i < d; ++i) EACH_SCALE_LANE {
      diagonal[i * N + l] = A[(i * d + i) * N + l];
      off[i * N + l] = i + 1 < d ? A[((i + 1) * d + i) * N + l] : 0.0;
    }
  }

  void fit(const double *log_rho) {  // evidence, E, c and log det(V / rho) at 10^log_rho times the unit
    double xx[N] = {}, xy[N] = {}, yy[N] = {}, x[N], y[N], D[N], product[N], inverse_rho[N];
    EACH_SCALE_LANE {
      rho[l] = unit[l] * std::exp(2.302585092994045684 * log_rho[l]);
      inverse_rho[l] = 1 / rho[l];
      log_det[l] = x[l] = y[l] = 0;
      D[l] = product[l] = 1;
    }
    for (int64_t i = 0; i < d; ++i) {
      EACH_SCALE_LANE {
        const double below = i > 0 ? off[(i - 1) * N + l] : 0.0, factor = below / D[l];
        const double raw = diagonal[i * N + l] + rho[l] - factor * below;
        D[l] = raw > 0.5 * rho[l] ? raw : 0.5 * rho[l];  // exactly it is at least rho
        x[l] = zx[i * N + l] - factor * x[l];
        y[l] = zy[i * N + l] - factor * y[l];
        const double ratio = 1 / D[l];
        xx[l] += x[l] * x[l] * ratio; xy[l] += x[l] * y[l] * ratio; yy[l] += y[l] * y[l] * ratio;
        pivot[i * N + l] = D[l];
        product[l] *= D[l] * inverse_rho[l];
      }
      if (i % 8 == 7 || i == d - 1) EACH_SCALE_LANE { log_det[l] += std::log(product[l]); product[l] = 1; }
    }
    EACH_SCALE_LANE {
      a[l] = n[l] - xx[l] > SMALL ? n[l] - xx[l] : SMALL;
      c[l] = (sum_y[l] - xy[l]) / a[l];
      const double left = energy[l] - yy[l] - a[l] * c[l] * c[l], floor = NOISE_FLOOR * spread[l];
      error[l] = left > floor ? left : floor;
      error[l] = error[l] > SMALL ? error[l] : SMALL;
      const double decades = log_rho[l] / GRID_SPREAD;
      evidence[l] = -0.5 * ((n[l] - 1) * std::log(error[l]) + log_det[l] + std::log(a[l]) + decades * decades);
    }
  }

  template <int64_t POINTS>
  void posterior(double *average, double *deviation, const double *centre, const double *half) {  // mean, sd of log10 rho
    double grid[POINTS][N], at[N], top[N], total[N] = {}, sum[N] = {}, squares[N] = {};
    const auto decades = [&](int64_t m, int64_t l) { return centre[l] + half[l] * (2.0 * m / (POINTS - 1) - 1); };
    EACH_SCALE_LANE top[l] = -1e300;
    for (int64_t m = 0; m < POINTS; ++m) {
      EACH_SCALE_LANE at[l] = decades(m, l);
      fit(at);
      EACH_SCALE_LANE { grid[m][l] = evidence[l]; top[l] = evidence[l] > top[l] ? evidence[l] : top[l]; }
    }
    for (int64_t m = 0; m < POINTS; ++m) EACH_SCALE_LANE {
      const double less = grid[m][l] - top[l], weight = std::exp(less > -600 ? less : -600);
      total[l] += weight;
      sum[l] += weight * decades(m, l);
    }
    EACH_SCALE_LANE average[l] = sum[l] / total[l];
    for (int64_t m = 0; m < POINTS; ++m) EACH_SCALE_LANE {
      const double less = grid[m][l] - top[l], off = decades(m, l) - average[l];
      squares[l] += std::exp(less > -600 ? less : -600) * off * off;
    }
    EACH_SCALE_LANE deviation[l] = std::sqrt(squares[l] / total[l]);
  }

  void estimate() {
    double average[N], deviation[N], centre[N], half[N];
    EACH_SCALE_LANE { centre[l] = 0.5 * (GRID_LOW + GRID_HIGH); half[l] = 0.5 * (GRID_HIGH - GRID_LOW); }
    posterior<COARSE>(average, deviation, centre, half);
    EACH_SCALE_LANE { centre[l] = average[l]; half[l] = 1 + 2 * deviation[l]; }
    posterior<FINE>(average, deviation, centre, half);
    for (int64_t l = 0; l < N; ++l) power[l] = known[l] ? average[l] - CAUTION * deviation[l] : 0.0;
    fit(power);
    for (int64_t l = 0; l < N; ++l) {
      noise[l] = known[l] ? std::sqrt(error[l] / (n[l] > 2 ? n[l] - 1 : 1.0)) : 0.0;
      offset[l] = known[l] ? c[l] : mean[l];
    }
  }

  void write_scales(int64_t lanes) {
    double shrinkage[N] = {}, below[N];
    EACH_SCALE_LANE below[l] = 1;
    for (int64_t i = d - 1; i >= 0; --i) EACH_SCALE_LANE {  // diagonal of (T + rho I)^-1, by pivots from both ends
      const double own = diagonal[i * N + l] + rho[l], next = i + 1 < d ? off[i * N + l] : 0.0;
      const double raw = own - next * next / below[l];
      below[l] = raw > 0.5 * rho[l] ? raw : 0.5 * rho[l];
      shrinkage[l] += rho[l] / (pivot[i * N + l] + below[l] - own);
    }
    for (int64_t l = 0; l < lanes; ++l) {
      double *to = s.scales + lane_of[l];
      const double above = spread[l] > SMALL ? spread[l] : SMALL, explained = 1 - error[l] / above;
      const double values[9] = {offset[l], noise[l], rho[l], n[l], 1.0, known[l] && explained > 0 ? explained : 0.0, power[l],
                                log_det[l] / d, shrinkage[l] / d};
      for (int64_t i = 0; i < 9; ++i) to[(i + 1) * s.B] = values[i];
    }
  }

  template <int64_t ARMS>
  void estimate_arms(int64_t k, int64_t lanes) {
    double mu[ARMS][N], wide[ARMS][N], slope[ARMS][N];  // slope: of the mean with respect to the offset
    for (int64_t first = 0; first < N; first += HALF) {
      Lanes mean[ARMS] = {}, square[ARMS] = {}, moves[ARMS] = {};
      const F *x = features.data() + k * d * N + first;
      for (int64_t i = 0; i < d; ++i) {
        Lanes w[ARMS] = {};
        for (int64_t j = 0; j <= i; ++j) {
          const Lanes r = lanes_at(root + (j * d + i) * N + first);
          for (int64_t m = 0; m < ARMS; ++m) w[m] += r * lanes_at(x + (m * d + j) * N);
        }
        const Lanes of = lanes_at(p + i * N + first), by = lanes_at(direction + i * N + first);
        for (int64_t m = 0; m < ARMS; ++m) { mean[m] += w[m] * of; square[m] += w[m] * w[m]; moves[m] += w[m] * by; }
      }
      for (int64_t m = 0; m < ARMS; ++m) {
        __builtin_memcpy(mu[m] + first, &mean[m], sizeof mean[m]);
        __builtin_memcpy(wide[m] + first, &square[m], sizeof square[m]);
        const Lanes left = 1.0 - moves[m];
        __builtin_memcpy(slope[m] + first, &left, sizeof left);
      }
    }
    for (int64_t m = 0; m < ARMS; ++m) {
      F *means = s.mu_hat + (k + m) * s.B + lane_of[0], *widths = s.width_sq + (k + m) * s.B + lane_of[0];
      for (int64_t l = 0; l < lanes; ++l) {
        const double of_offset = slope[m][l] * slope[m][l] / a[l];
        means[l] = F(base[l] + (known[l] ? mu[m][l] : 0.0));
        widths[l] = F(wide[m][l] + of_offset);
        if (s.offset_width_sq != nullptr) s.offset_width_sq[(k + m) * s.B + lane_of[l]] = F(of_offset);
      }
    }
  }

  void solve(int64_t lanes) {  // V = L L^T, root = L^-T, and the estimates of every arm
    for (int64_t j = 0; j < d; ++j) {
      double top[N];
      EACH_SCALE_LANE top[l] = gram[(j * d + j) * N + l] + rho[l];
      for (int64_t k = 0; k < j; ++k) EACH_SCALE_LANE top[l] -= L[(j * d + k) * N + l] * L[(j * d + k) * N + l];
      EACH_SCALE_LANE { top[l] = std::sqrt(top[l] > 0.5 * rho[l] ? top[l] : 0.5 * rho[l]); L[(j * d + j) * N + l] = top[l]; }
      for (int64_t i = j + 1; i < d; ++i) {
        double sum[N];
        EACH_SCALE_LANE sum[l] = gram[(i * d + j) * N + l];
        for (int64_t k = 0; k < j; ++k) EACH_SCALE_LANE sum[l] -= L[(i * d + k) * N + l] * L[(j * d + k) * N + l];
        EACH_SCALE_LANE L[(i * d + j) * N + l] = sum[l] / top[l];
      }
    }
    std::fill(root, root + d * d * N, 0.0);
    for (int64_t j = 0; j < d; ++j) for (int64_t i = j; i < d; ++i) {
      double sum[N];
      EACH_SCALE_LANE sum[l] = i == j ? 1.0 : 0.0;
      for (int64_t k = j; k < i; ++k) EACH_SCALE_LANE sum[l] -= L[(i * d + k) * N + l] * root[(j * d + k) * N + l];
      EACH_SCALE_LANE root[(j * d + i) * N + l] = sum[l] / L[(i * d + i) * N + l];
    }
    for (int64_t i = 0; i < d; ++i) {  // p = root^T b, direction = root^T sum_x
      EACH_SCALE_LANE p[i * N + l] = direction[i * N + l] = 0;
      for (int64_t j = 0; j <= i; ++j) EACH_SCALE_LANE {
        const double r = root[(j * d + i) * N + l], x = sum_x[j * N + l];
        p[i * N + l] += r * (moment[j * N + l] - offset[l] * x);
        direction[i * N + l] += r * x;
      }
    }
    for (int64_t l = 0; l < N; ++l) base[l] = s.scales[lane_of[l]] + offset[l];
    int64_t k = 0;
    for (; k + 4 <= K; k += 4) estimate_arms<4>(k, lanes);
    for (; k < K; ++k) estimate_arms<1>(k, lanes);
    for (int64_t i = 0; i < d * d; ++i) {
      F *to = s.root + i * s.B + lane_of[0];
      for (int64_t l = 0; l < lanes; ++l) to[l] = F(root[i * N + l]);
    }
    if (s.V == nullptr) return;
    for (int64_t i = 0; i < d; ++i) for (int64_t l = 0; l < lanes; ++l) {
      s.b[i * s.B + lane_of[l]] = F(moment[i * N + l] - offset[l] * sum_x[i * N + l]);
      for (int64_t j = 0; j < d; ++j) {
        const double own = gram[(std::max(i, j) * d + std::min(i, j)) * N + l] + (i == j ? rho[l] : 0.0);
        s.V[(i * d + j) * s.B + lane_of[l]] = F(own);
      }
    }
  }

  void run(int64_t first, int64_t lanes) {
    for (int64_t l = 0; l < N; ++l) lane_of[l] = first + (l < lanes ? l : lanes - 1);
    gather(lanes);
    sum_up();
    tridiagonalise();
    estimate();
    write_scales(lanes);
    solve(lanes);
  }
};

}  // namespace
