"""What Tessera's kernels compute, written plainly in NumPy: slow, and importing none of them.

A tree is anything with `dims`, `cuts` and `children`, as in `spaql.agents.tessera`.
"""

import math

import numpy as np

LEAF = -1
RANDOM_END, TIMED = 2, 3  # their places among the flags of a model

# Trees ----------------------------------------------------------------------------------------------------------------


def find_leaf(tree, x, node=0):
    while tree.dims[node] != LEAF:
        node = int(tree.children[node]) + bool(x[tree.dims[node]] >= tree.cuts[node])
    return node


def candidate_cuts(values, most, gap=0.0):
    """Cuts between neighbouring values that differ by more than a gap, below those at the quantiles k / (most + 1)."""
    ordered = np.sort(values)
    ends = np.flatnonzero(np.diff(ordered) > gap)  # a group of values ends there
    if not len(ends):
        return []
    cuts = set()
    for k in range(1, most + 1):
        before = ends[ends < k * len(ordered) // (most + 1)]
        end = before.max() if len(before) else ends.min()
        below, above = ordered[end], ordered[end + 1]
        middle = 0.5 * (below + above)
        cuts.add(float(middle if middle > below else above))
    return sorted(cuts)


# Linear trees ---------------------------------------------------------------------------------------------------------


def ridge_regression(features, outputs, strength):
    """Offset [M] and slope [M, D]; slopes are shrunk as by `strength` observations."""
    centre, mean = features.mean(axis=0), outputs.mean(axis=0)
    z = features - centre
    scatter = z.T @ z
    scatter += np.diag(strength * np.diag(scatter) / len(z) + 1e-9)
    slope = np.linalg.solve(scatter, z.T @ (outputs - mean)).T
    return mean - slope @ centre, slope


def log_squares(features, outputs, floor):
    """Half of n log s of a linear fit, summed over outputs."""
    design = np.column_stack([np.ones(len(features)), features - features.mean(axis=0)])
    left = outputs - design @ np.linalg.lstsq(design, outputs, rcond=None)[0]
    return 0.5 * len(features) * np.log((left**2).mean(axis=0) + floor).sum()


def split_gain(features, outputs, dim, cut, floor):
    """The gain in log likelihood of linear fits on either side of a cut."""
    above = features[:, dim] >= cut
    parts = [log_squares(features[side], outputs[side], floor) for side in (above, ~above)]
    return log_squares(features, outputs, floor) - sum(parts)


def best_split(features, outputs, least, bins, floor):
    """Gain, dimension and cut of the best split; gain 0 where no cut leaves enough data on both sides."""
    best = (0.0, LEAF, 0.0)
    for dim in range(features.shape[1]):
        for cut in candidate_cuts(features[:, dim], bins - 1):
            above = int((features[:, dim] >= cut).sum())
            if min(above, len(features) - above) >= least:
                best = max(best, (split_gain(features, outputs, dim, cut, floor), dim, cut), key=lambda each: each[0])
    return best


def grow_linear_tree(features, outputs, least, most, *, bins, floor, root_ridge, child_ridge):
    """Nodes as (dim, cut, lower child, offset, slope), breadth first."""
    mean, scale = outputs.mean(axis=0), outputs.std(axis=0)
    left = (outputs - mean) / scale
    width, count = features.shape[1], outputs.shape[1]
    nodes, waiting = [], [(np.arange(len(features)), np.zeros(count), np.zeros((count, width)))]
    for rows, offset, slope in waiting:  # grows
        extra = ridge_regression(features[rows], left[rows], child_ridge if nodes else root_ridge)
        left[rows] -= extra[0] + features[rows] @ extra[1].T
        offset, slope = offset + extra[0], slope + extra[1]
        gain, dim, cut = 0.0, LEAF, 0.0
        if len(rows) >= 2 * least and len(waiting) + 2 <= most:
            gain, dim, cut = best_split(features[rows], left[rows], least, bins, floor)
        child = 0
        if gain < (width + 1) * (count + 3.0 * math.sqrt(count)):
            dim, cut = LEAF, 0.0
        else:
            child, above = len(waiting), features[rows, dim] >= cut
            waiting += [(rows[~above], offset, slope), (rows[above], offset, slope)]
        nodes.append((dim, cut, child, mean + scale * offset, scale[:, None] * slope))
    return nodes


def predict(tree, z):
    """Outputs of a linear tree at features z."""
    node, features = find_leaf(tree, z), tree.slopes.shape[2]
    z = np.asarray(z)[:features]
    y = tree.offsets[node] + tree.slopes[node] @ z
    if len(tree.curvature):
        y = y + tree.curvature @ np.array([z[i] * z[j] for i in range(features) for j in range(i + 1)])
    return y


# The model ------------------------------------------------------------------------------------------------------------


def scramble(counter):
    """SplitMix64."""
    bits = counter * 0x9E3779B97F4A7C15 % 2**64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    return bits ^ (bits >> 31)


def encode_action(model, action):
    if len(model.table):
        return model.table[int(action[0])]
    return 2.0 * math.sqrt(3.0) * (np.asarray(action) - 0.5)


def imagine(model, x, u, bits, step=0):
    """Reward, next state and whether the episode ended, in a time step of a model; bits of 0 play the mean."""
    if model.flags[TIMED]:
        u = np.append(u, (step - model.clock[0]) / model.clock[1])
    z = np.concatenate([x, u])
    leaf = find_leaf(model.dynamics, z)
    change = np.clip(predict(model.dynamics, z), *model.change)
    if bits and model.pool_sizes[leaf]:
        change = change + model.pool[leaf, (bits >> 40) * int(model.pool_sizes[leaf]) >> 24]
    following = x + change
    low, high = model.range
    for d, period in enumerate(model.periods):
        if period > 0.0:
            following[d] -= period * math.floor((following[d] - low[d]) / period)
        else:
            following[d] = min(max(following[d], low[d]), high[d])
    if (following < model.known[0]).any() or (following > model.known[1]).any():
        return float(model.worst[0]), following, True
    products = [following[i] * following[j] for i in range(len(x)) for j in range(i + 1)]
    score = np.concatenate([[1.0], following, products]) @ model.end.weights if len(model.end.weights) else 0.0
    share = model.end.shares[find_leaf(model.end, np.concatenate([following, u, x, [score]]))]
    ended = share > 0.5
    if model.flags[RANDOM_END] and bits:
        ended = (bits * 0x9E3779B97F4A7C15 % 2**64 >> 11) * 2.0**-53 < share
    tree = model.final if ended else model.reward
    reward = predict(tree, np.concatenate([z, following]))[0]
    return float(np.clip(reward, *model.rewards[int(ended)])), following, bool(ended)


def perturb(model, bits, features):
    """Features of a random action in three of a hundred steps, else those given."""
    bits = scramble(bits)
    place = (bits >> 11) * 2.0**-53 / 0.03
    if place >= 1.0:
        return features
    if len(model.table):
        return model.table[int(place * len(model.table))]
    drawn = []
    for _ in features:
        bits = scramble(bits)
        drawn.append((bits >> 11) * 2.0**-53)
    return encode_action(model, np.array(drawn))


def play_policy(model, tree, starts, horizon, rollouts, first=0):
    """Mean return of a policy over rollouts whose random numbers depend on rollout and step only.

    The policy sees the time step behind the state.
    """
    total = 0.0
    for k in range(first, first + rollouts):
        x = starts[k % len(starts)]
        for step in range(horizon):
            action = tree.actions[find_leaf(tree, np.append(x, step))]
            bits = scramble(1 + k * horizon + step)
            features = encode_action(model, action)
            if scramble(k) % 2 == 1:
                features = perturb(model, bits, features)
            reward, x, ended = imagine(model, x, features, bits, step)
            total += reward
            if ended:
                break
    return total / rollouts


def score_policy(models, tree, starts, horizon, rollouts, first=0):
    returns = [play_policy(model, tree, starts, horizon, rollouts, first) for model in models]
    return 0.5 * np.mean(returns) + 0.5 * min(returns)


# Values ---------------------------------------------------------------------------------------------------------------


def fit_planes(forest, support, values, strength):
    """A function V(x): the mean over trees of the ridge regression in x's leaf, clamped."""
    planes = {}
    for tree, root in enumerate(forest.roots):
        leaves = np.array([find_leaf(forest, x, root) for x in support])
        for leaf in np.unique(leaves):
            here = leaves == leaf
            z = support[here] - support[here].mean(axis=0)
            scatter = z.T @ z
            scatter += np.diag(strength * np.diag(scatter) / len(z) + 1e-8)
            slope = np.linalg.solve(scatter, z.T @ values[here])
            planes[tree, leaf] = support[here].mean(axis=0), values[here].mean(), slope

    def value(x):
        total = 0.0
        for tree, root in enumerate(forest.roots):
            centre, there, slope = planes[tree, find_leaf(forest, x, root)]
            total += there + slope @ (x - centre)
        return float(np.clip(total / len(forest.roots), *forest.bounds))

    return value


def evaluate_successors(value, successors):
    """Q of all candidates in all states of the support."""
    q = successors.rewards.copy()
    for i, j in np.ndindex(q.shape):
        pairs = zip(successors.discounts[i, j], successors.states[i, j], strict=True)
        q[i, j] += np.mean([discount * value(x) for discount, x in pairs])
    return q


def sweep(forest, support, successors, values, soft, rounds, strength, full):
    """Values of the support after `rounds` backups; all but every `full`-th evaluate the last greedy actions only."""
    every = np.arange(len(support))
    for k in range(rounds):
        q = evaluate_successors(fit_planes(forest, support, values, strength), successors)
        if k % full == 0:
            greedy = q.argmax(axis=1)
            gaps = soft * (q.max(axis=1) - q[:, : successors.single].mean(axis=1))
        values = np.clip(q[every, greedy] - gaps, *forest.bounds)
    return values


def induct(forest, support, succeed, horizon, soft, strength):
    """Values of the support at each time step, from the last to the first, `[horizon + 1, n]`."""
    values = [np.zeros(len(support))]
    value = lambda x: 0.0  # noqa: E731
    for step in range(horizon - 1, -1, -1):
        successors = succeed(step)
        q = evaluate_successors(value, successors)
        after = (1.0 - soft) * q.max(axis=1) + soft * q[:, : successors.single].mean(axis=1)
        values.insert(0, np.clip(after, *forest.bounds))
        value = fit_planes(forest, support, values[0], strength)
    return np.array(values)


# Policies -------------------------------------------------------------------------------------------------------------


def _gini(labels, stakes, actions):
    weights = np.bincount(labels, stakes, actions)
    return weights.sum() - (weights**2).sum() / weights.sum() if weights.sum() > 0.0 else 0.0


def _best_cut(states, advantages, labels, stakes, least, most_cuts, impurity):
    """Gain, dimension and cut: saved regret, and a share of the saved impurity."""
    actions = advantages.shape[1]
    mixed, best = _gini(labels, stakes, actions), (0.0, LEAF, 0.0)
    if len(states) < 2 * least or not mixed > 1e-12:
        return best
    for dim in range(states.shape[1]):
        for cut in candidate_cuts(states[:, dim], most_cuts, gap=1e-4):
            above = states[:, dim] >= cut
            if min(above.sum(), (~above).sum()) < least:
                continue
            gain = -advantages.sum(axis=0).max() + impurity * mixed
            for side in (above, ~above):
                gain += advantages[side].sum(axis=0).max() - impurity * _gini(labels[side], stakes[side], actions)
            best = max(best, (gain, dim, cut), key=lambda each: each[0])
    return best


def grow_policy(states, q, leaves, *, least, most_cuts, impurity):
    """Nodes as (dim, cut, lower child, action's index), grown best first."""
    advantages, labels, stakes = q - q.max(axis=1, keepdims=True), q.argmax(axis=1), np.ptp(q, axis=1)

    def make_node(rows):
        cut = _best_cut(states[rows], advantages[rows], labels[rows], stakes[rows], least, most_cuts, impurity)
        return {"rows": rows, "best": cut, "child": 0, "action": int(advantages[rows].sum(axis=0).argmax())}

    nodes = [make_node(np.arange(len(states)))]
    for _ in range(leaves - 1):
        waiting = [node for node in nodes if not node["child"] and node["best"][1] != LEAF]
        if not waiting:
            break
        node = max(waiting, key=lambda each: each["best"][0])
        _, dim, cut = node["best"]
        node["child"] = len(nodes)
        above = states[node["rows"], dim] >= cut
        nodes += [make_node(node["rows"][side]) for side in (~above, above)]
    return [(*(node["best"][1:] if node["child"] else (LEAF, 0.0)), node["child"], node["action"]) for node in nodes]
