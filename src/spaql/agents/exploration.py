"""Exploration on a table: which cell of a state to play, and the schedules of what that depends on.

With a the cells of a state, Q(a) their values, n(a) their visits and tau the *level* of exploration, one of

* "epsilon": with probability tau a cell drawn evenly, else the best (Watkins, 1989);
* "boltzmann": P(a) ~ exp(Q(a) / tau);
* "ucb-boltzmann": P(a) ~ exp((Q(a) + c sqrt(ln(1 + sum n) / (1 + n(a)))) / tau) with falling tau, the combination of
  upper confidence bounds and Boltzmann exploration of Yamaguchi et al. (2011) as the SPAQL paper describes it;
* "mellowmax": P(a) ~ exp(beta Q(a)), the policy of largest entropy whose expected Q is mm(Q) (Asadi and Littman, 2017):
  beta in [0, omega] solves sum exp(beta (Q(a) - mm)) (Q(a) - mm) = 0.  It has no level.

Mellowmax itself, an operator in place of the maximum, is

    mm(Q) = ln((1 / n) sum exp(omega Q(a))) / omega,     between the mean and the maximum.

The level of episode k = 0, 1, ... goes from tau_0 to tau_1 in K episodes and stays there:

    constant      tau_0 (tau_1 plays no part)
    linear        tau_0 + (tau_1 - tau_0) min(1, k / K)
    exponential   tau_0 (tau_1 / tau_0)^min(1, k / K)

The fourth schedule, "cyclic", is SPAQL's: tau begins at its least, tau_1, and rises to u tau after every episode whose
return is below the best so far; at a return that is not it falls back to tau_1, and u becomes u^d.  SPAQL also goes
back after two iterations with splits and no improvement; there are no splits here, and so tau goes back where it would
pass its largest, tau_0.
"""

import math
from typing import NamedTuple

import numpy as np

from spaql.partition.jit import kernel
from spaql.partition.rng import uniform

KINDS = ("epsilon", "boltzmann", "ucb-boltzmann", "mellowmax")
SCHEDULES = ("constant", "linear", "exponential", "cyclic")
EPSILON, BOLTZMANN, UCB_BOLTZMANN, MELLOWMAX = range(4)
CONSTANT, LINEAR, EXPONENTIAL, CYCLIC = range(4)
LEVEL, HEAT, BEST = range(3)  # of the array that goes with a schedule
_HALVINGS = 50


class Exploration(NamedTuple):
    """Constants of exploration, named as the parameters of `QLearning` where they are."""

    kind: int
    schedule: int
    initial: float  # tau_0
    final: float  # tau_1
    decay_episodes: int  # K
    heat_decay: float  # d
    scaling: float  # c
    omega: float  # of mellowmax
    averages: bool  # whether V is mellowmax, not the maximum


@kernel(inline=True)
def update_level(exploring, annealing, episode):
    """Set the level of an episode; that of the cyclic schedule follows from the last one."""
    progress = min(1.0, episode / exploring.decay_episodes)
    if exploring.schedule == CONSTANT:
        annealing[LEVEL] = exploring.initial
    elif exploring.schedule == LINEAR:
        annealing[LEVEL] = exploring.initial + (exploring.final - exploring.initial) * progress
    elif exploring.schedule == EXPONENTIAL:
        annealing[LEVEL] = exploring.initial * (exploring.final / exploring.initial) ** progress


@kernel(inline=True)
def update_cycle(exploring, annealing, score):
    """Let the level of the cyclic schedule rise, or reset it, after an episode's return."""
    if score >= annealing[BEST]:
        annealing[BEST] = score
        annealing[LEVEL] = exploring.final
        annealing[HEAT] = annealing[HEAT] ** exploring.heat_decay
    else:
        annealing[LEVEL] = annealing[LEVEL] * annealing[HEAT]
        if annealing[LEVEL] > exploring.initial:
            annealing[LEVEL] = exploring.final


@kernel(inline=True)
def choose_cell(f, leaf, choices, exploring, level, random):
    """Choose among the cells of a leaf, which are neighbours in the arrays."""
    first = f.nodes[leaf].head
    if exploring.kind == EPSILON:
        if uniform(random) < level:
            return first + min(choices - 1, int(uniform(random) * choices))
        return f.nodes[leaf].top
    slope = 1.0 / level
    if exploring.kind == MELLOWMAX:
        slope = find_slope(f, leaf, choices, exploring.omega)
    visits = 1.0
    if exploring.kind == UCB_BOLTZMANN:
        for a in range(choices):
            visits += f.cells[first + a].visits
    return sample_softmax(f, first, choices, slope, exploring.scaling, math.log(visits), random)


@kernel(inline=True)
def sample_softmax(f, first, choices, slope, scaling, log_visits, random):
    """Draw a cell by P(a) ~ exp(slope (Q(a) + scaling sqrt(log_visits / (1 + n(a))))); without `log_visits` by Q."""
    top = -np.inf
    for a in range(choices):
        q = f.cells[first + a].q
        if log_visits > 0.0:
            q += scaling * math.sqrt(log_visits / (1.0 + f.cells[first + a].visits))
        f.weights[a] = q
        top = max(top, q)
    total = 0.0
    for a in range(choices):
        total += math.exp(slope * (f.weights[a] - top))
        f.weights[a] = total
    pick = uniform(random) * total
    a = 0
    while a < choices - 1 and f.weights[a] <= pick:
        a += 1
    return first + a


@kernel(inline=True)
def find_mellowmax(f, leaf, choices, omega):
    """Return mm(Q) of the cells of a leaf; the largest Q is taken off first, so that nothing overflows."""
    first = f.nodes[leaf].head
    top = f.nodes[leaf].top_q
    total = 0.0
    for a in range(choices):
        total += math.exp(omega * (f.cells[first + a].q - top))
    return top + math.log(total / choices) / omega


@kernel(inline=True)
def find_slope(f, leaf, choices, omega):
    """Return beta of the mellowmax policy, by bisection.

    The sum grows with beta, is not above 0 at 0, as mm is at least the mean, and not below 0 at omega.
    """
    first = f.nodes[leaf].head
    top = f.nodes[leaf].top_q
    value = find_mellowmax(f, leaf, choices, omega)
    low = 0.0
    high = omega
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        total = 0.0
        for a in range(choices):
            q = f.cells[first + a].q
            total += math.exp(middle * (q - top)) * (q - value)
        if total < 0.0:
            low = middle
        else:
            high = middle
    return high
