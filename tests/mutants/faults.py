"""Small faults to plant in the package, each with the tests that must see it."""

from mutants.fault import Fault
from mutants.later_faults import LATER_FAULTS

FAULTS = {
    # --- the law of the trees --------------------------------------------------------------------
    "growth: 97 % of the time to a cut": Fault(
        "_kernels/grow.py",
        "clock - np.log1p(-uniform(key, draw)) / rate",
        "clock - 0.97 * np.log1p(-uniform(key, draw)) / rate",
        "tests/laws/test_tree_laws.py",
    ),
    "growth: blocks of trees begin with the same tree": Fault(
        "_trees/growth.py",
        "Block.plant(seed, first_tree + k, min(",
        "Block.plant(seed, first_tree, min(",
        "tests/laws/test_tree_laws.py::test_trees_of_different_blocks_are_independent",
    ),
    "extension: 95 % of the time to a cut": Fault(
        "_kernels/extend.py",
        "budget = -np.log1p(-uniform(key, 0)) if room",
        "budget = -0.95 * np.log1p(-uniform(key, 0)) if room",
        "tests/laws/test_online_laws.py::test_a_row_is_parted_when_a_unit_exponential_is_spent",
    ),
    "extension: the time spent at a node is forgotten": Fault(
        "_kernels/extend.py",
        "budget = max(budget - distance * (death - birth), 0.0)",
        "budget = max(budget - 0.9 * distance * (death - birth), 0.0)",
        "tests/laws/test_online_laws.py::test_a_row_is_parted_when_a_unit_exponential_is_spent",
    ),
    "extension: cuts in the lower 95 % of a gap": Fault(
        "_kernels/extend.py",
        "uniform_between(key, 2, low, high)",
        "uniform_between(key, 2, low, low + 0.95 * (high - low))",
        "tests/laws/test_online_laws.py::test_a_cut_that_parts_a_row_is_uniform_on_the_gaps",
    ),
    "refinement: 95 % of the time to a cut": Fault(
        "_kernels/extend.py",
        "clock = stop[node] - np.log1p(-uniform(key, 0)) / rate",
        "clock = stop[node] - 0.95 * np.log1p(-uniform(key, 0)) / rate",
        "tests/laws/test_online_laws.py::test_a_leaf_is_cut_further_as_its_box",
    ),
    "refinement: cuts in the lower 95 % of a side": Fault(
        "_kernels/extend.py",
        "uniform_between(key, 2, lower[node, dim], upper[node, dim])",
        "lower[node, dim] + 0.95 * uniform(key, 2) * (upper[node, dim] - lower[node, dim])",
        "tests/laws/test_online_laws.py::test_a_leaf_is_cut_further_as_its_box",
    ),
    "refinement: the shares of the counts are swapped": Fault(
        "_kernels/extend.py",
        "share = (loc - lower[node, dim])",
        "share = (upper[node, dim] - loc)",
        "tests/online/test_stream.py::test_counts_of_a_refined_leaf_are_shares_of_its_box",
    ),
    "box: 95 % of the time to a new cut": Fault(
        "_trees/boxes.py",
        "new_time = birth + clocks[",
        "new_time = birth + 0.95 * clocks[",
        "tests/partition/test_extension_law.py",
    ),
    "box: new cuts in the lower 95 % of the gaps": Fault(
        "_trees/boxes.py",
        "offset = rng.random(lower.size) * (below",
        "offset = 0.95 * rng.random(lower.size) * (below",
        "tests/partition/test_extension_law.py",
    ),
    # --- cells at a lifetime ---------------------------------------------------------------------
    "walk: a cut at the very lifetime does not part rows": Fault(
        "_kernels/walk.py",
        "while time[node] <= end_time and",
        "while time[node] < end_time and",
        "tests/trees/test_trees.py",
    ),
    "cells: a cut at the very lifetime makes no cells": Fault(
        "_kernels/walk.py",
        "if cell < 0 and (time[node] > lifetime or",
        "if cell < 0 and (time[node] >= lifetime or",
        "tests/trees/test_trees.py",
    ),
    "transform: at the very time of a cut the cells of before": Fault(
        "features.py",
        "node, log_stay = self.trees_.walk_through(rows, self.levels_.lifetimes, self.n_jobs)",
        "node, log_stay = self.trees_.walk_through("
        "rows, np.nextafter(self.levels_.lifetimes, 0.0), self.n_jobs)",
        "tests/test_features.py::test_features_at_the_very_time_of_a_cut",
    ),
    # --- model files -----------------------------------------------------------------------------
    "trees: a cut along the column after the last": Fault(
        "_trees/trees.py",
        "_in_range(self.dim[cut], 0, self.n_dims - 1)",
        "_in_range(self.dim[cut], 0, self.n_dims)",
        "tests/persistence/test_forgeries.py::test_no_entry_of_the_record_can_be_wrong",
    ),
    "trees: the parents of right children are not checked": Fault(
        "_trees/trees.py",
        "(self.parent[child] == above).all() and",
        "(self.parent[left] == cut).all() and",
        "tests/persistence/test_forgeries.py::test_no_entry_of_the_record_can_be_wrong",
    ),
    "trees: a child after the last node": Fault(
        "_trees/trees.py",
        'require(_in_range(child, 0, n - 1), "children out of range")',
        'require(_in_range(child, 0, n), "children out of range")',
        "tests/persistence/test_forgeries.py::test_no_entry_of_the_record_can_be_wrong",
    ),
    "trees: the leaf of a row after the last node": Fault(
        "_trees/trees.py",
        "_in_range(leaf, 0, self.time.size - 1)",
        "_in_range(leaf, 0, self.time.size)",
        "tests/persistence/test_forgeries.py::test_no_entry_of_the_record_can_be_wrong",
    ),
    "levels: a cell with the number of cells": Fault(
        "_trees/levels.py",
        "numbered = np.array_equal(np.sort(column[top]), np.arange(top.size))",
        "numbered = (column[top] <= top.size).all()",
        "tests/persistence/test_forgeries.py::test_no_entry_of_the_record_can_be_wrong",
    ),
    "file: many small arrays may claim any memory": Fault(
        "persistence/container.py",
        "if sum(array.excess for array in arrays) > settings.FILE_EXPANSION_FREE:",
        "if max(array.excess for array in arrays) > settings.FILE_EXPANSION_FREE:",
        "tests/persistence/test_forgeries.py::test_many_small_arrays_cannot_fill_the_memory_either",
    ),
    "file: everybody may read a private file while it is written": Fault(
        "persistence/container.py",
        "0o666 if old is None else 0o600",
        "0o666 if old is None else 0o644",
        "tests/persistence/test_file_writing.py",
    ),
    "file: threads are taken from a file": Fault(
        "persistence/encoding.py",
        '_MACHINE = {"n_jobs", "verbose"}',
        '_MACHINE = {"verbose"}',
        "tests/persistence/test_model_file.py",
    ),
    # --- error bars ------------------------------------------------------------------------------
    "quantiles ignore the weights": Fault(
        "_model/spread.py",
        "below = np.cumsum(weight[order], axis=0)",
        "below = np.cumsum(np.ones(order.shape), axis=0)",
        "tests/model/test_spread.py::test_weights_are_repetitions_in_quantiles",
    ),
    "quantiles without the new row": Fault(
        "_model/spread.py",
        "wanted = share * (n + 1.0) * (total / n)",
        "wanted = share * total",
        "tests/model/test_spread.py::test_upper_quantile_is_that_of_conformal_prediction",
    ),
    "the deviation of errors ignores the weights": Fault(
        "_model/spread.py",
        "np.sqrt(np.average(self.errors**2, axis=0, weights=self.weight))",
        "np.sqrt(np.average(self.errors**2, axis=0))",
        "tests/model/test_spread.py::test_weights_are_repetitions_in_the_deviation",
    ),
    "the spread of a fit forgets the weights": Fault(
        "_model/spread.py",
        "        own.sample_weight.copy(),",
        "        np.ones(errors.shape[0]),",
        "tests/model/test_spread.py::test_the_errors_of_a_fit_have_the_weights_of_their_rows",
    ),
    "the link of a classifier ignores the weights": Fault(
        "_model/link.py",
        '"log_loss"), weight / weight.mean()',
        '"log_loss"), np.ones(labels.size)',
        "tests/model/test_link.py::test_weights_are_repetitions_in_the_link",
    ),
    "sets of classes ignore the weights": Fault(
        "classifier.py",
        "upper_quantile(1.0 - own[:, None], weight, float(share))",
        "upper_quantile(1.0 - own[:, None], np.ones(own.size), float(share))",
        "tests/model/test_link.py::test_weights_are_repetitions_in_sets",
    ),
    "sets of classes forget the weights of a fit": Fault(
        "_model/class_fit.py",
        "counts = np.ones(out.size) if weight is None else weight[out]",
        "counts = np.ones(out.size)",
        "tests/model/test_link.py::test_fits_keep_the_weights_of_rows_held_out",
    ),
    "weights stop growing one step too late": Fault(
        "_model/levels_fit.py",
        "if found[-1].min() > found[-2].min():",
        "if len(found) > 2 and found[-2].min() > found[-3].min():",
        "tests/model/test_levels_fit.py::test_weights_grow_until_the_loss_does",
    ),
    "backfitting: cells pass up what they explain": Fault(
        "_kernels/lanes.py",
        "S[p] += D[a] * (S[i] + U[a]) - U[a]",
        "S[p] += D[a] * (S[i] + U[a])",
        "tests/linear/test_backfit.py::test_every_step_lowers_the_objective",
    ),
    "backfitting: rows that are fitted say when to stop": Fault(
        "_linear/backfit.py",
        "held_out = self._weight[:, : self._width] == 0",
        "held_out = self._weight[:, : self._width] > 0",
        "tests/linear/test_backfit.py::test_change_is_that_of_rows_held_out",
    ),
    "backfitting: rounding is taken for a step": Fault(
        "_linear/backfit.py",
        "factors = np.where(self._combined, factors,",
        "factors = np.where(self._combined | True, factors,",
        "tests/linear/test_backfit.py::test_every_step_lowers_the_objective",
    ),
    "held-out rows are fitted": Fault(
        "_model/folds.py",
        "(self.of_row[:, None] != np.arange(self.n_folds))",
        "(self.of_row[:, None] > np.arange(self.n_folds) - self.n_folds - 1)",
        "tests/model/test_levels_fit.py::test_predictions_of_rows_held_out",
    ),
    "the bars of an exact stream forget the weights": Fault(
        "_model/ridge_model.py",
        "standard_loo_errors(operator, rows.Y, alpha, exact), rows.weight)",
        "standard_loo_errors(operator, rows.Y, alpha, exact), np.ones(rows.weight.size))",
        "tests/online/test_exact_regressor.py::test_weights_are_repetitions_in_intervals",
    ),
    "the intervals of an exact stream ignore the weights": Fault(
        "_model/ridge_model.py",
        "np.concatenate([weight, weight])",
        "np.ones(2 * weight.size)",
        "tests/online/test_exact_regressor.py::test_weights_are_repetitions_in_intervals",
    ),
    "a stream's errors in another unit": Fault(
        "_kernels/learners.py",
        "variance[i] = 2.0 * alpha * spread + alpha",
        "variance[i] = alpha * spread + alpha",
        "tests/online/test_filter.py::test_is_the_formula",
    ),
    "far away the bar is no wider": Fault(
        "_model/spread.py",
        "np.sqrt(unknown) * self.far",
        "0.0 * np.sqrt(unknown) * self.far",
        "tests/model/test_spread.py::test_what_is_not_known_adds_to_the_scale",
    ),
    # --- streams ---------------------------------------------------------------------------------
    "a large mean of y costs precision": Fault(
        "_kernels/learners.py",
        "offset[:] = Y[0]",
        "offset[:] = 0.0",
        "tests/online/test_stream.py::test_a_large_mean_of_the_targets_costs_nothing",
    ),
    "a batch that fails is half learnt": Fault(
        "_online/scaled_stream.py",
        "        except BaseException:\n            self.rollback(n_before)",
        "        except BaseException:\n            pass",
        "tests/online/test_stream.py::test_interrupt_leaves_the_stream_as_it_was",
    ),
    "stream: the running error of a learner forgets nothing": Fault(
        "_kernels/mixture.py",
        "rate = 1.0 / min(counts[0] + i + 1, STREAM_WINDOW)",
        "rate = 1.0 / (counts[0] + i + 1)",
        "tests/online/test_stream.py::test_all_learners_are_judged_before_they_learn_a_batch",
    ),
    "stream: the first row has an error": Fault(
        "_kernels/committee.py",
        "np.full(len(Y), 1.0 if at > 0 else 0.0)",
        "np.full(len(Y), 1.0)",
        "tests/online/test_stream.py -k local_size",
    ),
    "stream: recent means have seen as many batches as rows": Fault(
        "_kernels/mixture.py",
        "1.0 if i < T else n_rows / n_batches",
        "1.0",
        "tests/online/test_drift.py -k discounted_ridge",
    ),
    "stream: a loss that has risen goes unnoticed": Fault(
        "_online/stream.py",
        "if rescaled or (risen and n_new >= settings.RENEWAL_ROWS):",
        "if rescaled:",
        "tests/online/test_drift.py -k relevant_columns",
    ),
    "stream: a new start need not be better": Fault(
        "_online/stream.py",
        "if gain > settings.RENEWAL_GAIN:",
        "if True:",
        "tests/online/test_drift.py -k relevant_columns",
    ),
    "stream: sizes of errors are not rolled back": Fault(
        "_online/scaled_stream.py",
        "self.sizes.rollback(*batch)",
        "pass",
        "tests/online/test_stream.py::test_interrupt_leaves_the_stream_as_it_was",
    ),
    "stream: linear learners forget nothing": Fault(
        "_kernels/linear.py",
        "p *= min(1.0, E * prior / total) / keep[s]",
        "pass",
        "tests/online/test_linear.py",
    ),
    "stream: other units by a factor that rounds": Fault(
        "_kernels/learners.py",
        "unit = math.ldexp(1.0, math.frexp(state[j, GROWTH])[1] - 1)",
        "unit = state[j, GROWTH]",
        "tests/online/test_filter.py -k units",
    ),
    # --- choice of the width ---------------------------------------------------------------------
    "a smaller penalty that does about as well is taken": Fault(
        "_path/loss_path.py",
        "(-1, 1.0 - settings.SMALLER_ALPHA_WORTH)",
        "(-1, 1.0)",
        "tests/path/test_loss_path.py",
    ),
    "a further move need not pay": Fault(
        "_path/choose.py",
        "score > least - settings.MOVE_WORTH * abs(least)",
        "score > least",
        "tests/path/test_choose.py",
    ),
    "the best lifetime without slack": Fault(
        "_path/result.py",
        "best <= best.min() + self.slack * abs(best.min())",
        "best <= best.min()",
        "tests/path/test_choose.py",
    ),
    # --- arguments and threads -------------------------------------------------------------------
    "the scale is shared with the caller": Fault(
        "_model/columns.py",
        "given = np.array(scale, dtype=np.float64)",
        "given = np.asarray(scale, dtype=np.float64)",
        "tests/test_sharing.py",
    ),
    "after an error threads write on": Fault(
        "_trees/threads.py",
        "            wait(pieces)\n",
        "",
        "tests/trees/test_threads.py",
    ),
    "a failed fit leaves half a model": Fault(
        "_trees/checks.py",
        "        vars(estimator).update(before)\n",
        "",
        "tests/hostile/test_attacks.py -k features",
    ),
    # --- command line ----------------------------------------------------------------------------
    "a prediction named like an end is lost": Fault(
        "app/predict.py",
        'prefix = f"{target}_" if target in ("lower", "upper") else ""',
        'prefix = ""',
        "tests/app/test_outputs.py::test_a_target_named_like_an_end_keeps_its_prediction",
    ),
    "formulas are written as they are": Fault(
        "app/predict.py",
        'return f"\'{value}"',
        "return value",
        "tests/app/test_outputs.py::test_formulas_are_text_in_csv_files",
    ),
    # --- rows on disk -----------------------------------------------------------------------------
    "tables in parts: each part lies over the first": Fault(
        "encoder.py",
        "        begin = end\n",
        "        begin = 0 * end\n",
        "tests/test_on_disk.py::test_a_parquet_file_is_encoded_as_a_frame",
    ),
    "tables in parts: gaps are sought in the last part alone": Fault(
        "_tables/encoding.py",
        "self.has_gaps |= bool(missing.any())",
        "self.has_gaps = bool(missing.any())",
        "tests/test_on_disk.py::test_a_parquet_file_is_encoded_as_a_frame",
    ),
    "columns: the deviation is that of the last block": Fault(
        "_model/columns.py",
        "sums += s[block] @ rest, s[block] @ rest**2",
        "sums[:] = s[block] @ rest, s[block] @ rest**2",
        "tests/test_on_disk.py::test_scales_and_columns_do_not_depend_on_blocks",
    ),
    **LATER_FAULTS,
}
