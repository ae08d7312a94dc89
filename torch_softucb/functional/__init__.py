"""The formulas as pure functions: any leading batch shape ``*B``, float32 or float64, a mask wherever there is an arm axis.

A public function checks its arguments. Where policies, backends or trainers need the formula in every round, the public
function checks and then calls a private function in the same file (leading underscore), which they call directly. Functions
that work element by element broadcast and have no checks.
"""

from torch_softucb.functional.bounds import beta_upper_bound, regret_bound, thompson_scale
from torch_softucb.functional.confidence import coverage, num_suboptimal
from torch_softucb.functional.constraints import bounded, nonnegative, nonnegative_gradient
from torch_softucb.functional.control_variates import enough_to_fit, leave_one_out, linear_prediction
from torch_softucb.functional.dual import (
    coverage_error,
    dual_ascent,
    dual_eta,
    lagrangian_size,
    normalised_slope,
    unsigned_slope,
)
from torch_softucb.functional.evidence import LinearPosterior, bayesian_ridge
from torch_softucb.functional.gradient import expected_reward, reward_and_gradient
from torch_softucb.functional.hierarchical_ridge import HierarchicalRidge, evidence_prior
from torch_softucb.functional.index import soft_ucb_index
from torch_softucb.functional.objective import (
    Objective,
    OnlineGradient,
    offline_objective,
    online_gradient,
    online_objective,
    sum_width,
)
from torch_softucb.functional.off_policy import (
    Evaluation,
    cross_fitted_rewards,
    direct_method,
    doubly_robust,
    inverse_propensity,
    self_normalised,
    switch_doubly_robust,
)
from torch_softucb.functional.optimal_design import g_optimal_design
from torch_softucb.functional.prequential import (
    DualStep,
    Residuals,
    add_residuals,
    error_scale,
    estimated_coverage,
    no_residuals,
    online_dual_step,
)
from torch_softucb.functional.propensities import propensity_check
from torch_softucb.functional.regret import expected_regret
from torch_softucb.functional.residuals import log_noise, residual_sum, reward_sums
from torch_softucb.functional.ridge import (
    low_precision_suffices,
    ridge_cache_error,
    ridge_estimate,
    ridge_estimate_blocks,
    ridge_root,
    ridge_root_update,
)
from torch_softucb.functional.sampling import draw_arm, draw_slate, slate_log_prob
from torch_softucb.functional.scales import RegressionSums, Scales, evidence_scales
from torch_softucb.functional.score_function import Score, delta_slope, logit_slope, reward_to_go, trajectory_score
from torch_softucb.functional.softmax import arm_probabilities, coldness, greedy_probabilities, smooth_coldness

__all__ = [
    "DualStep",
    "Evaluation",
    "HierarchicalRidge",
    "LinearPosterior",
    "Objective",
    "OnlineGradient",
    "RegressionSums",
    "Residuals",
    "Scales",
    "Score",
    "add_residuals",
    "arm_probabilities",
    "bayesian_ridge",
    "beta_upper_bound",
    "bounded",
    "coldness",
    "coverage",
    "coverage_error",
    "cross_fitted_rewards",
    "delta_slope",
    "direct_method",
    "doubly_robust",
    "draw_arm",
    "draw_slate",
    "dual_ascent",
    "dual_eta",
    "enough_to_fit",
    "error_scale",
    "estimated_coverage",
    "evidence_prior",
    "evidence_scales",
    "expected_regret",
    "expected_reward",
    "g_optimal_design",
    "greedy_probabilities",
    "inverse_propensity",
    "lagrangian_size",
    "leave_one_out",
    "linear_prediction",
    "log_noise",
    "logit_slope",
    "low_precision_suffices",
    "no_residuals",
    "nonnegative",
    "nonnegative_gradient",
    "normalised_slope",
    "num_suboptimal",
    "offline_objective",
    "online_dual_step",
    "online_gradient",
    "online_objective",
    "propensity_check",
    "regret_bound",
    "residual_sum",
    "reward_and_gradient",
    "reward_sums",
    "reward_to_go",
    "ridge_cache_error",
    "ridge_estimate",
    "ridge_estimate_blocks",
    "ridge_root",
    "ridge_root_update",
    "self_normalised",
    "slate_log_prob",
    "smooth_coldness",
    "soft_ucb_index",
    "sum_width",
    "switch_doubly_robust",
    "thompson_scale",
    "trajectory_score",
    "unsigned_slope",
]
