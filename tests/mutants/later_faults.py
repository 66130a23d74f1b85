"""Faults in tables, error bars, explanations, portable files, streams and sums over blocks."""

from mutants.fault import Fault

LATER_FAULTS = {
    # --- tables ----------------------------------------------------------------------------------
    "encoder: an unknown category is the first one": Fault(
        "_tables/encoding.py",
        "self.table[n, 0] = -0.5",
        "self.table[n, 0] = 0.5",
        "tests/test_encoder.py::test_all_categories_have_the_distance_one",
    ),
    "encoder: a row sees its own target": Fault(
        "_tables/encoding.py",
        "rows[others] = means(some, codes[others])",
        "rows[others] = means(slice(None), codes[others])",
        "tests/test_encoder.py::test_a_row_does_not_see_its_own_target",
    ),
    "encoder: the upper one of two medians": Fault(
        "_tables/encoding.py",
        '0.5, method="lower"',
        '0.5, method="higher"',
        "tests/test_encoder.py::test_the_median_is_a_value_and_does_not_overflow",
    ),
    "tables: masked entries count": Fault(
        "_tables/columns.py",
        "np.where(np.ma.getmaskarray(X), None, X.data)",
        "X.data.astype(object)",
        "tests/test_tables.py::test_masked_entries_are_gaps",
    ),
    "tables: large whole numbers of a list are merged": Fault(
        "_tables/columns.py",
        "np.abs(rows) >= 2.0**53",
        "np.abs(rows) > 2.0**54",
        "tests/test_tables.py::test_a_list_is_a_table_as_a_frame_is",
    ),
    "rows on disk: the weights of rows left out stay": Fault(
        "on_disk.py",
        "some = rows[block][used[block]]",
        "some = rows[block][used[: block.stop - block.start]]",
        "tests/test_on_disk.py::test_rows_of_weight_0_are_left_out_on_disk",
    ),
    # --- error bars, probabilities, explanations -------------------------------------------------
    "quantiles: the lower end is rounded up": Fault(
        "_model/spread.py",
        "return -float(upper_quantile(-errors[:, None], weight, 1.0 - share)[0])",
        "return float(upper_quantile(errors[:, None], weight, share)[0])",
        "tests/model/test_spread.py",
    ),
    "quantiles: ranks ignore the weights": Fault(
        "_model/error_scale.py",
        "each = np.bincount(place, weight)",
        "each = np.bincount(place)",
        "tests/model/test_spread.py::test_ranks_are_shares_of_the_weight_below",
    ),
    "link: the factor goes to the shifts": Fault(
        "_model/link.py",
        "link[0] * F + link[1:]",
        "F + link[0] * link[1:]",
        "tests/model/test_link.py::test_link_recovers_the_probabilities",
    ),
    "explain: orders without their reverse": Fault(
        "_estimator/explainable.py",
        "np.stack([one, one[:, ::-1]], axis=1)",
        "np.stack([one, one], axis=1)",
        "tests/test_explain.py::test_many_columns",
    ),
    "explain: neighbours of later blocks are forgotten": Fault(
        "_estimator/explainable.py",
        "best = np.take_along_axis(best, order, axis=1)",
        "best = best[:, :k]",
        "tests/test_explain.py::test_neighbours_have_the_largest_kernel",
    ),
    "portable: rows outside of a box stay in it": Fault(
        "portable.py",
        "log_stay[active] -= distance[:, None] * lived.clip(0.0)",
        "log_stay[active] -= 0.9 * distance[:, None] * lived.clip(0.0)",
        "tests/persistence/test_portable.py::test_predictions_are_those_of_the_library",
    ),
    # --- streams ---------------------------------------------------------------------------------
    "stream: the intercept forgets nothing": Fault(
        "_kernels/learners.py",
        "state[KNOWN] = min(state[KNOWN] / keep, FLAT_VARIANCE)",
        "state[KNOWN] = min(state[KNOWN], FLAT_VARIANCE)",
        "tests/online/test_filter.py",
    ),
    "stream: the running error forgets one row too late": Fault(
        "_kernels/mixture.py",
        "rate = 1.0 / min(counts[0] + i + 1, STREAM_WINDOW)",
        "rate = 1.0 / min(counts[0] + i + 1, STREAM_WINDOW + 1)",
        "tests/online/test_stream.py::test_all_learners_are_judged_before_they_learn_a_batch",
    ),
    "stream: a file forgets which right nodes are new": Fault(
        "_trees/packed.py",
        "(left >= n_fit) | (right >= n_fit) | (cut >= n_fit)",
        "(left >= n_fit) | (cut >= n_fit)",
        "tests/persistence/test_forgeries.py -k packed_streams",
    ),
    "stream: rows that are rolled back are kept": Fault(
        "_trees/online.py",
        "while rows is not None and sum(map(len, rows.X)) > n_rows:",
        "while False:",
        "tests/persistence/test_forgeries.py -k keeps_its_rows",
    ),
    "stream: a level begins where the first one does": Fault(
        "_kernels/learners.py",
        "cells[i, l, m] = begin[l] + column[first + l, leaf[i, m]]",
        "cells[i, l, m] = begin[0] + column[first + l, leaf[i, m]]",
        "tests/online/test_filter.py -k levels",
    ),
    "stream: Ctrl-C takes back the batch before": Fault(
        "_online/exact.py",
        "self._before is None or self._before[0] != n_rows",
        "self._before is None",
        "tests/online/test_exact.py::test_a_batch_can_be_rolled_back",
    ),
    "stream: Ctrl-C leaves error bars of fewer cells": Fault(
        "_trees/checks.py",
        "            undo()\n",
        "            pass\n",
        "tests/hostile/test_attacks.py -k interrupted",
    ),
    "a step of y is a special value": Fault(
        "_tables/encoding.py",
        "(step[0] * step[1] > 0.0)",
        "(step[0] * step[0] > 0.0)",
        "tests/test_encoder.py::test_slopes_steps_and_noise_have_no_special_values",
    ),
    "columns of special values share the relevance of theirs": Fault(
        "encoder.py",
        "own = np.where(is_category, first, np.arange(columns.size))",
        "own = first",
        "tests/test_encoder.py::test_special_values_are_outputs_of_the_encoder",
    ),
    "columns: the slope in a stretch of the ranks is off": Fault(
        "_model/learn_columns.py",
        "of_bin += half * np.exp(u) * (own",
        "of_bin += half * (own",
        "tests/model/test_columns.py::test_objective_and_gradient",
    ),
    "columns: pairs pull only one of their rows": Fault(
        "_kernels/dense.py",
        "of_B[d, j] -= slope",
        "of_B[d, j] -= 0.0 * slope",
        "tests/model/test_columns.py::test_objective_and_gradient",
    ),
    "stream of dicts: a missing label is a class": Fault(
        "river.py",
        "            refuse_missing_targets([y])\n",
        "            pass\n",
        "tests/test_river.py::test_a_missing_label_is_no_class",
    ),
    "file of a stream: a box bounds the rows of its left node only": Fault(
        "_kernels/grow.py",
        "upper[node, d] = max(upper[one, d], upper[other, d])",
        "upper[node, d] = upper[one, d]",
        "tests/persistence/test_forgeries.py -k packed_trees",
    ),
    # --- sums over blocks, command line ----------------------------------------------------------
    "Dask: the mean of the features stays in the sums": Fault(
        "dask/cells.py",
        "A -= np.outer(sums.phi, sums.phi / sums.total_weight)",
        "A -= 0.0 * np.outer(sums.phi, sums.phi / sums.total_weight)",
        "tests/dask/test_regressor.py::test_dense_fit_is_that_in_one_place",
    ),
    "Dask: every share of the trees has the random numbers of the first": Fault(
        "dask/shares.py",
        "plant(rows, end - first, seed, 1, first)",
        "plant(rows, end - first, seed, 1, 0)",
        "tests/dask/test_growth.py::test_shares_of_many_workers",
    ),
    "Dask: a round that is not the first of a growth begins at the wrong nodes": Fault(
        "dask/growth.py",
        "number[node] = np.arange(node.size)",
        "number[node] = 0",
        "tests/dask/test_growth.py::test_growing_in_steps_changes_nothing",
    ),
    "a class for every row is fitted": Fault(
        "app/table_model.py",
        "if n_words > settings.MAX_CATEGORIES and 2 * n_words > words.size:",
        "if n_words > words.size:",
        "tests/app/test_fit_predict.py::TestDecimalComma",
    ),
    "trend: slopes of the kernel without its distance": Fault(
        "_model/trend_fit.py",
        "slope = seen * (E @ c)[:, None] - E @ (c[:, None] * Z)",
        "slope = -E @ (c[:, None] * Z)",
        "tests/model/test_trend.py::test_directions_are_a_power_of_the_mean_squared_slopes",
    ),
    "trend: the data choose no directions": Fault(
        "_model/trend_fit.py",
        "best = found[-1]",
        "best = found.pop()",
        "tests/model/test_trend.py::test_the_data_choose_directions",
    ),
}
