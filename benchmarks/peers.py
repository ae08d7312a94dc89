"""Time of one LinUCB round in other libraries: one decision among K = 50 arms with d = 10 features, and one update.

Runs in a separate environment, which ``make bench`` creates. Each line of the standard input names a library; the answer
is one JSON line with the time per round in ns, or null if the library cannot be imported. So the caller can interleave
measurements.
"""

import json
import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

K, D = 50, 10
random = np.random.default_rng(0)
arms = random.normal(size=(K, D))
arms /= np.linalg.norm(arms, axis=1, keepdims=True)
theta = random.normal(size=D)
means = arms @ theta / np.linalg.norm(theta)


def seconds(play, rounds):
    """Return the time per round of ``play(rounds)``."""
    start = time.perf_counter()
    play(rounds)
    return (time.perf_counter() - start) / rounds


def numpy_lin_ucb():
    """LinUCB by hand in numpy: one theta for all arms; V^-1, estimates and squared widths are kept by rank-one updates."""
    inverse, mu_hat, width_sq = np.eye(D), np.zeros(K), np.ones(K)

    def play(rounds):
        for _ in range(rounds):
            arm = int(np.argmax(mu_hat + np.sqrt(width_sq)))
            reward = means[arm] + 0.5 * random.normal()
            u = inverse @ arms[arm]
            z = arms @ u
            s = 1 + width_sq[arm]
            mu_hat[:] += z * ((reward - mu_hat[arm]) / s)
            width_sq[:] -= z * z / s
            inverse[:] -= np.outer(u, u / s)

    return play, 2000


def mabwiser_lin_ucb():
    """LinUCB of mabwiser: one theta per arm."""
    from mabwiser.mab import MAB, LearningPolicy

    mab = MAB(list(range(K)), LearningPolicy.LinUCB(alpha=1.0, l2_lambda=1.0))
    contexts = random.normal(size=(K, D))
    mab.fit(np.arange(K), np.zeros(K), contexts)

    def play(rounds):
        for _ in range(rounds):
            context = random.normal(size=(1, D))
            arm = mab.predict(context)
            mab.partial_fit([arm], [float(means[arm])], context)

    return play, 100


def contextualbandits_lin_ucb():
    """LinUCB of contextualbandits: one theta per arm, rewards 0 or 1."""
    from contextualbandits.online import LinUCB

    model = LinUCB(nchoices=K, alpha=1.0, random_state=1)
    model.fit(random.normal(size=(K, D)), np.arange(K), (random.random(K) > 0.5).astype(float))

    def play(rounds):
        for _ in range(rounds):
            context = random.normal(size=(1, D))
            arm = model.predict(context)
            model.partial_fit(context, arm, np.array([1.0]))

    return play, 30


def river_lin_ucb():
    """LinUCBDisjoint of river: one theta per arm."""
    from river import bandit

    policy = bandit.LinUCBDisjoint(alpha=1.0, seed=1)
    names = list(range(K))

    def play(rounds):
        for _ in range(rounds):
            context = dict(enumerate(random.normal(size=D)))
            arm = policy.pull(names, context=context)
            policy.update(arm, context, float(means[arm]))

    return play, 100


def jax_soft_ucb(batch=1024):
    """SoftUCB with the terms of Eq. 13, the same rollout as ours: lax.scan over rounds, vmap over trajectories."""
    import jax
    import jax.numpy as jnp

    below = jnp.tril(jnp.ones((K, K)))  # jnp.cumsum is slower than this product
    X, mu, best, beta, delta, std = jnp.float32(arms), jnp.float32(means), float(means.max()), 0.75, 0.99, 0.5

    def step(state, drawn):
        mu_hat, width_sq, inverse = state
        uniform, normal = drawn
        width = jnp.sqrt(width_sq)
        index = mu_hat + beta * width - jnp.max(mu_hat - beta * width)
        top, low = jnp.max(index), jnp.sum(index < 0)
        defined = (low > 0) & (top > 0)
        gamma = jnp.where(defined, jnp.log(delta * jnp.maximum(low, 1) / (1 - delta)) / jnp.where(defined, top, 1.0), 0.0)
        p = jnp.exp(gamma * (index - top))
        p = p / jnp.sum(p)
        value = jnp.sum(p * mu_hat)
        gradient = gamma * jnp.sum(p * (mu_hat - value) * width)
        arm = jnp.minimum(jnp.sum(below @ p <= uniform), K - 1)
        reward = mu[arm] + std * normal
        u = inverse @ X[arm]
        z, s = X @ u, 1 + width_sq[arm]
        state = (mu_hat + z * ((reward - mu_hat[arm]) / s), width_sq - z * z / s, inverse - jnp.outer(u, u / s))
        return state, (best - jnp.sum(p * mu), gradient, jnp.sum(width))

    def trajectory(uniform, normal):
        start = (jnp.zeros(K), jnp.ones(K), jnp.eye(D))
        _, (regret, gradient, widths) = jax.lax.scan(step, start, (uniform, normal))
        return jnp.sum(regret), jnp.sum(gradient), jnp.sum(widths)

    rounds = 128

    @jax.jit
    def run(key):  # all random numbers at once; drawing them in the loop takes twice as long
        one, other = jax.random.split(key)
        shape = (batch, rounds)
        return jax.vmap(trajectory)(jax.random.uniform(one, shape), jax.random.normal(other, shape))

    key = jax.random.key(0)
    jax.block_until_ready(run(key))

    def play(_):
        jax.block_until_ready(run(key))

    return play, batch * rounds


PEERS = {
    "numpy": numpy_lin_ucb,
    "mabwiser": mabwiser_lin_ucb,
    "contextualbandits": contextualbandits_lin_ucb,
    "river": river_lin_ucb,
    "jax": jax_soft_ucb,
    "jax 4096": lambda: jax_soft_ucb(4096),
}


def main() -> None:
    """Answer the names on standard input."""
    ready = {}
    for line in sys.stdin:
        name = line.strip()
        try:
            if name not in ready:
                play, rounds = PEERS[name]()
                play(min(rounds, 5))
                ready[name] = (play, rounds)
            print(json.dumps(seconds(*ready[name]) * 1e9), flush=True)
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            print("null", flush=True)


if __name__ == "__main__":
    main()
