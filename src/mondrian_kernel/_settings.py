"""Every hand-picked number of the library, with its unit and the measurement behind it."""

# --- Numbers that are accepted ------------------------------------------------------------------

# Largest number of X and y, and one over the smallest range of a column. Squares, their sums over
# rows and products with a penalty stay between the least and the largest number of 64 bits.
LARGEST_NUMBER = 1e100
# Largest weight of a row over the smallest one: the sum of the others keeps four digits. And the
# largest weight, one over the smallest: beside the default penalties sums keep some digits.
WEIGHT_RATIO = 1e12
LARGEST_WEIGHT = 1e12
# Smallest penalty over the sum of the weights of the rows: solutions are then off by 2e-4.
LEAST_PENALTY = 1e-12


# --- on_disk: rows in blocks --------------------------------------------------------------------

BLOCK_ROWS = 2**16  # rows that are read, checked or encoded at once: 5 MB of ten columns
NUMBERS_IN_MEMORY = 2**23  # encoded numbers of a table in parts that need no file, 64 MB
COLUMN_GROUP_NUMBERS = 2**25  # numbers of columns that are copied in one pass over rows, 256 MB


# --- _trees: growth, extension, threads ---------------------------------------------------------

# Lifetimes that stand for a distribution: equally likely quantiles. With 16 the kernel of a Gamma
# distribution is off by less than 0.01.
DISTRIBUTION_LEVELS = 16
# Expected cuts per cell in one step of a growth with a bound on the number of cells. A step may
# overrun the bound by about this share.
GROWTH_STEP = 0.5
# Trees whose nodes share a table while they grow. A table is copied when it is full; with all 200
# trees in one, growing took 1 to 2 times as long (protein, cpu_act).
GROWTH_TREES = 16
# Elementary operations below which a second thread does not pay for itself.
THREAD_WORK = 500_000
# Rows that go down one tree before the next tree: they and the tree's nodes stay in the cache.
# Compiled kernels keep the value they were compiled with: after a change delete their cache.
WALK_ROWS = 1024
# Rows that go down a tree side by side, so that the processor need not wait for memory. Descents
# alone take 0.4 of the time, whole predictions 0.7 to 0.9.
WALK_LANES = 8
# Nodes, or leaves in growth, that a table has room for beyond those it starts with.
SPARE_NODES = 64
# A stream after a fit has room for one new cell to so many old ones; then for half as many again.
# 500 rows after a fit of 20 000 add one to 80. Room of a half takes 15 MB more, and 0.02 seconds.
SPARE_CELLS = 8


# --- _linear: operators and solvers -------------------------------------------------------------

# Shares of the trees whose products are added up in order, so that threads change nothing. More
# threads than that do not help.
OPERATOR_SHARES = 4

# Products with the cells of trees.
RUN_ROW_SHARE = 0.06  # share of N; a run of trees grows until so many distinct rows are in it
RUN_BLOCK_ENTRIES = 8000  # entries side by side: with eight numbers each they stay in the cache
# Columns of a product with several levels that take the time of one: eight take 3.0 ns a row and
# tree, four 2.3 and sixteen 5.2. And rows up to which unused columns cost nothing.
LEVEL_LANES, LANE_ROWS = 8, 50_000
# The same in a sweep of backfitting: four columns take 1.6 ns a row and tree, beside the cells.
BACKFIT_LANES = 4
# Backfitting. Rows from which on threads share them in a sweep over trees; and a share of squares
# too small to combine steps in single precision: they are 1e-3 of the errors.
SHARED_ROWS = 200_000
STEP_ROUNDING = 1e-6
MOMENT_ROWS = 256  # rows whose squares are summed in single precision, before double; picked
PANEL_NUMBERS = 2**24  # numbers held at once for a block of columns, 128 MB
KERNEL_ROWS = 256  # rows of a kernel matrix changed at once; the matrix may fill the memory

# Dense factors, by their size min(C, N).
FIT_DENSE_SIZE = 2000  # beyond, conjugate gradients are faster than one Cholesky factor
LOG_DET_DENSE_SIZE = 8000  # 512 MB, for one number
VARIANCE_DENSE_SIZE = 10_000  # 800 MB, made once and kept for all predictions
ONE_THREAD_SIZE = 1500  # below, the threads of a BLAS mostly wait for each other
FEW_ALPHAS = 5  # so many Cholesky factors take the time of one eigendecomposition

# Conjugate gradients.
GRADIENT_STEPS = 2000  # most steps of a ridge fit
GRADIENT_TOL = 1e-7  # relative residual of a ridge fit
NYSTROEM_ROWS = 400  # rows of the preconditioner: more cost as much as the steps they save
NYSTROEM_NUMBERS = 40_000_000  # numbers of the preconditioner at most, 320 MB

# Lanczos.
KRYLOV_STEPS = 1000  # most steps; a warning says where they were too few
KRYLOV_BLOCK = 32  # vectors of the basis that are added to the solutions at once
SINGLE_PRECISION_TOL = 1e-5  # tolerance from which on the basis is kept in single precision
PROBE_EXACT_ROWS = 500  # up to so many rows diagonals are exact, from dense factors
PROBE_NUMBERS = 8000  # random vectors times rows; between the two bounds below
PROBES_LEAST, PROBES_MOST = 2, 16
PROBE_BIN = 32  # rows whose noisy diagonals are smoothed together
PATH_PROBE_TOL = 0.3  # relative residual along a path: few random vectors are noisier than that
FIT_PROBES = 8  # random vectors for one fit
ONE_FIT_PROBE_TOL = 1e-2  # their relative residual

# Predictive variance.
VARIANCE_TOL = 1e-8  # relative residual; variances are then off by a share of 1e-6 at most

# Newton's method.
NEWTON_PRODUCTS = 5000  # most products of one inner solve
NEWTON_FORCING = 0.1  # at most this part of the squared gradient is left by an inner solve
NEWTON_SHARE = 0.3  # of the tolerance, for what an inner solve leaves
ARMIJO = 1e-4  # part of the expected decrease that a step must achieve
SHORTEST_STEP = 1e-8  # step length below which only rounding is left
INTERCEPT_STEPS = 20  # most steps of the intercept alone
INTERCEPT_TOL = 1e-13  # relative to the sum of the weights, and of the objective: rounding
OBJECTIVE_FLOOR = 1e-12  # an objective below this part of the first is 0 up to rounding

# Hinge loss, dual coordinate descent.
HINGE_PASSES = 100  # most passes of a round
HINGE_FIRST_VIOLATION = 0.1  # at which the first round stops
HINGE_TIGHTENING = 0.3  # factor of the violation from round to round

# Stochastic gradients.
SGD_POWER = {"squared": 0.75, "log_loss": 0.75, "hinge": 1.0}  # decay of the steps; 1: Pegasos
SGD_AVERAGE_DEGREE = 1.0  # iterate t weighs (t + 1)^degree in the average

# Ridge after every cut.
SWEEP_CUTS = 32  # cuts swept together: 64 columns of 5000 cells fill a cache
CUT_BLOCK_LEAST, CUT_BLOCK_MOST = 16, 1024  # cuts of one low-rank update
CELLS_PER_CUT = 4  # size of the factor for each cut of an update, within these bounds
LEVERAGE_SAMPLE = 4  # rows whose leverages are checked after each update
FRESH_DRIFT = 4.0  # an update may drift so many times as far as a solution by a fresh factor
LDL_PANEL = 48  # columns of a blocked LDLᵀ


# --- _path: lifetimes to evaluate, when to stop -------------------------------------------------

# Progress of a stage: seconds until its first report, and share of its time until the next one.
PROGRESS_FIRST, PROGRESS_GROWTH = 1.0, 0.25

# Lifetimes and stopping.
PATH_GROUP = 8  # lifetimes scored together: eight columns of a product cost as much as one
# Least number of groups while trees grow, which may end after each. Four lifetimes of 20 instead of
# eight take 0.64 of the time, 0.3 to 1.1 (seven sets of 4000 rows held out); of 50, 1.12.
GROWING_GROUPS = 5
PATH_PATIENCE = 6  # lifetimes to wait for a better one; ridge
CLEARLY_WORSE = 0.03  # share of the best error that the last must exceed it by
EVIDENCE_MARGIN = 10.0  # nats that the last log-likelihood must fall short of the best by
TREE_BYTES = 2e9  # of the boxes of growing trees
HELD_OUT_ENTRIES = 2**24  # features of a (row, tree, lifetime) held at once, 128 MB
PATH_DENSE_COST = 25.0 * 1200**3  # operations up to which exact scores beat random vectors

# Penalties: exponents of 10 from, to, and how many.
MODEL_ALPHAS = (-4.0, 1.0, 11)
PATH_ALPHAS_LEFT_OUT = 2  # of the smallest, which take most of the steps without a matrix
FOREST_ALPHAS = (-3.0, 1.0, 9)
EVERY_CUT_ALPHA = 0.01

# Classification.
LOSS_FIRST_ALPHA = 0.1  # where the search for alpha starts
LOSS_PATH_TOL = 3e-3  # of the objective: a rough minimum ranks widths as well as an exact one
LOSS_PATH_STEPS = 30  # most steps of one fit
SMALLER_ALPHA_WORTH = 0.02  # share of the loss that a smaller alpha, which costs more, must save
LOSS_PATIENCE = 3  # lifetimes to wait for a better one
LOSS_PATIENCE_FEW, LOSS_FEW_ROWS = 8, 2000  # few rows held out make a rough curve
FOREST_PATIENCE = 3
HELD_OUT_SHARE = 0.2  # of the rows
CHOICE_PATH_CELLS = 3_000_000  # of all trees; each has boxes of D sides and K weights

# Choice for ridge regression: a path on a sample of rows, with few trees, finds the region.
SAMPLE_ROWS, SAMPLE_TREES, SAMPLE_LIFETIMES = 800, 200, 20
# A window there decides: by leaving out each row, exactly, up to so many rows; beyond, on rows held
# out, of at most so many. The best lifetime and alpha hardly depend on the number of trees once
# there are some hundreds.
EXACT_ROWS, EXACT_TREES = 2000, 1500
CHOICE_ROWS, CHOICE_TREES = 10_000, 300
WINDOW = (0.5, 2.0, 7)  # factors of the lifetime from, to, and how many
EVIDENCE_WINDOW = (0.3, 3.0, 16)  # as wide as the posterior of a width may be
WINDOW_MOVES = 5  # most windows
MOVE_WORTH = 0.002  # share of the error that a move must gain for another one
ALPHA_SLACK = 0.01  # of the alphas within this share of the best error the largest is fastest
LIFETIME_SLACK = 0.005  # the smallest lifetime within it: few trees make narrow kernels look best
CHOICE_TOL = 2e-3  # relative residual of Lanczos

# Choice for classifiers and forests: trees and rows of the sample.
LOSS_SAMPLE_TREES, LOSS_SAMPLE_ROWS = 100, (1500, 10_000)
LOSS_SAMPLE_TARGETS = 40_000  # rows times classes, between these bounds on the rows
FOREST_SAMPLE_TREES, FOREST_SAMPLE_ROWS = 100, 4000

# Number of trees of a model. Errors fall until there are some thousand; see the guide's table.
TREES_LEAST, TREES_MOST, TREES_MOST_OF_CLASSES = 100, 4000, 1000
PAIRS_MOST = 30_000_000  # rows times trees
PAIRS_MOST_OF_CLASSES = 150_000_000  # the same times outputs, for many systems instead of one
MODEL_BYTES = 1.2e9  # of the trees
PILOT_TREES = 10  # trees whose cells tell how many all will have

# Posterior over the width.
NEGLIGIBLE_WEIGHT = 1e-6  # relative to the largest; such lifetimes are left out of predictions
UNLIKELY_WEIGHT = 1e-3  # the same for models that are fitted anew
MEAN_NODES, MEAN_PARTS = 16, 128  # Gauss-Legendre nodes of a part, and parts of the posterior mean
MIXTURE_BYTES = 1e9  # of the factors that a mixture keeps


# --- _model: scale, relevance, choice of the kernel, intervals ----------------------------------

# Columns: a monotone function of each, learnt with the exact kernel on random rows (see
# _model/columns.py). Errors below are those of the exact kernel on 3000 rows of 15 data sets.
# Rows to fit and rows to hold out in a step, fewest and most. They grow with the root of the number
# of rows: nycflights_delay, 200 000 rows, error 0.752 with 600 rows a step, 0.743 with 2000.
COLUMN_ROWS, COLUMN_MANY_ROWS = (600, 2000), 20_000
COLUMN_PAIRS = 2e7  # rows² · columns of a step; bounds the rows where there are many columns
# Steps of descent, fewest and most. They grow as the rows of a step do. 40 to 80 gave the same
# errors on small sets; nycflights_delay, 200 000 rows: 0.724 with 60 and 0.700 with 140.
COLUMN_STEPS = (60, 140)
COLUMN_RATE = 0.15  # change of a logarithm in a step
COLUMN_WIDTHS = (0.25, 1.0, 4.0)  # lifetimes of the kernel, relative; each 4 times the one before
# Standard deviation of log-relevances before any row is seen. 0.35, 0.7 and 1 were tried:
# california 0.413, 0.386, 0.407; bike 0.254, 0.257, 0.260; concrete 0.197, 0.222, 0.231.
COLUMN_PRIOR = 1.0
COLUMN_RANK_PRIOR = 1.0  # the same for the logit of the share of ranks, around one half
# Bins of the ranks that are stretched apart, and the standard deviation of the logarithms of the
# stretches. Errors with it over those without, ten sets and three seeds: 0.976 with 32 bins, 0.974
# with 16 (which the smooth and the small sets among them like less), 0.996 with 16 and 0.5 on 24
# sets. Cauchy, Laplace and random-walk priors: 0.98.
COLUMN_BINS, COLUMN_BIN_PRIOR = 32, 1.0
COLUMN_LEAST_ROWS = 20  # with fewer rows nothing is learnt
# Where the descent begins: λ times the mean distance, and penalties, tried on a few rows.
COLUMN_START_LIFETIMES, COLUMN_START_ALPHAS = (0.3, 1.0, 3.0), (1e-2, 1e-1, 1.0)
COLUMN_START_ROWS = 200
COLUMN_LEAST_RELEVANCE = 1e-3  # of the mean; so that no scale becomes infinite
COLUMN_DIGITS = 3  # digits kept, so that rounding errors do not show
RANK_ROWS = 200_000  # rows that it is taken from, drawn at random where there are more
RANK_KNOTS = 256  # values of a column at which its distribution function is kept
LEAST_ERROR = 1e-6  # share of the variance of y below which errors count as none

# Rows up to which equal ones are joined although they have no weights. Beyond, equal rows stay
# apart, so that rows held out meet their copies as new rows do (wine_quality 0.669, joined 0.689).
JOINED_ROWS = 1000

# Powers of the relevances that a trend may have, and that trees may have for what it leaves.
TREND_POWERS = (0.7, 0.4, 1.0)
METRIC_POWERS = (0.4, 0.7, 1.0, 1.6, 2.5)
# Trees by which the powers are compared. Errors of seven sets with 600 to 20 000 rows, two splits,
# over those with one power for both: 0.985 (energy 0.932, california 0.978, bike 0.989; none above
# 1.002). With 30 trees and 6000 rows 0.994, with 60 and 6000 0.990; with the powers 0.5, 0.7, 1,
# 1.4 and 2, 0.993.
METRIC_TREES = 50
# Half of the rows, within bounds. With 10 000 rows instead of half, errors of nycflights_delay are
# 0.713 instead of 0.688 (200 000 rows) and 0.753 instead of 0.733 (100 000), of kin40k with 32 000
# rows 0.162 instead of 0.152, of the benchmark's `jumps` with a million 0.205 instead of 0.202.
METRIC_ROWS = (10_000, 50_000)

# Rows held out.
FOLD_ALL_ROWS = 1000  # up to so many rows each is held out once, in five folds
FOLD_SHARE = 0.15  # else the share of the rows in a part
FOLD_ROWS = 1500  # rows held out in all, where three parts suffice for it
FOLD_MOST_ROWS = 20_000  # rows of a part; the error then has a standard error of 0.5 %

# Trend: kernel ridge regression on landmarks.
TREND_LANDMARKS = (512, 1024, 2048)
# The greater numbers are for smooth kernels whose squared error with TREND_FINAL_LANDMARKS is lower
# by these shares than with TREND_SAMPLE_LANDMARKS; up to 1024 rows, all are landmarks. With 512
# everywhere, 12 sets below the first share have 1.001 of their errors and fits take 0.85 of the
# time, 8 sets above it have 1.03, and 8 with narrow kernels, 0.999. With 1024 instead of 2048, sets
# above the second share have more errors: kin40k 1.15, letter 1.10, kin8nm 1.02, pol and airfoil
# 1.04; of two sets below it (protein, elevators) one gains, by 0.2 %. Fits take 0.5 to 0.8 of the
# time. With 0.05 as the second share protein has 1.02 and satimage 0.92, and fits take 1.4 and 1.9
# times as long; with 0.1 kin8nm has 1.02. With 4096, kin40k has 0.86 and kin8nm 0.98 of them, and
# fits take 2.5 to 4 times as long.
TREND_GAINS = (0.02, 0.07)
# Rows that the trend is fitted to, drawn at random where there are more. nycflights_delay with
# 200 000 rows: squared error of the trend 0.579, fitted to 50 000 of them 0.604.
TREND_ROWS = 200_000
TREND_ALPHAS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
TREND_SAMPLE_ROWS, TREND_SAMPLE_LANDMARKS = 3000, 300  # to choose the kernel of the trend
# Parts of the rows held out to compare kernels. With all of them, three or five, four sets had the
# same errors and fits took 1.2 times as long.
TREND_FOLDS = 2
# Best kernels that are tried with other factors of the columns; and kernels that are compared
# again, with more landmarks. With all kernels at all factors, four finalists and 800 landmarks,
# errors of 13 sets were 1.002 of those now, and fits took 1.3 times as long.
TREND_SHAPES, TREND_FINALISTS, TREND_FINAL_LANDMARKS = 2, 2, 512
TREND_SMOOTH_SCALES = (0.5, 1.0, 2.0, 4.0)  # mean distance over the width of the Matérn kernel
TREND_SCALES = (0.5, 1.0, 2.0)  # factors of the lifetimes of the Laplace kernel
# Directions of a smooth trend. Powers of the matrix of mean squared slopes, tried one after the
# other while the squared error falls by a share; the part of equal slopes in that matrix; and most
# columns, as rows take O(columns²). Errors over those without: kin40k 0.79, kin8nm 0.92, pol 0.94,
# elevators 0.99, others the same. With any fall instead of the share: satimage 0.97, but letter
# 1.08 and california 1.01; with many rows a kernel without directions catches up.
TREND_TURN_POWERS, TREND_TURN_GAIN = (0.5, 1.0), 0.05
TREND_TURN_PRIOR, TREND_TURN_COLUMNS = 0.05, 64
# Length of a row in the linear part, root mean square, where it is 1 for the kernel; and share of
# the squared error by which a linear part must be better to be taken. Errors with 3 or 10 over
# those without: linear functions 0.84 to 0.94, concrete 0.99, boston 1.00, diabetes 1.00.
TREND_LINEAR, TREND_LINEAR_GAIN = 3.0, 0.02
TREND_END = 0.001  # share of the rows at each end of a column that a trend cuts off
TREND_MARGIN = 0.1  # of its range on the fitted rows, beyond which a trend is cut off
TREND_BLOCK = 512  # rows at once: 4 MB of kernel, which stay in the cache
LANDMARK_JITTER = 1e-6  # landmarks may be copies of each other

# Trees of a model that learns its widths.
LEVEL_RATIO = 3.0  # each lifetime is so many times the one before
LEVEL_COUNT = 3  # lifetimes; wider cells than these are left to the trend
# Cells of a tree at the last lifetime over rows. With at most 4096 cells, or a sixteenth of the
# rows, errors are larger where rows are many: protein, 36 500 rows, 0.560 instead of 0.548; elec2,
# 36 200 rows, 4.5 instead of 4.0 %; nycflights_delay, 200 000 rows, 0.694 instead of 0.690.
LEVEL_CELLS_SHARE = 0.25
# Logarithms of the weight of the narrowest cells, and how fast wider ones lose weight.
LEVEL_NOISE, LEVEL_SLOPES = (-4.0, -1.5, 1.0, 3.5, 6.0), (0.0, 1.5, 3.0)
LEVEL_TREES = 64  # trees with which the weights are chosen
# Rows for it: a share of them, within bounds; the weights do not depend on the number of rows.
LEVEL_ROWS_SHARE, LEVEL_ROWS = 1 / 4, (15_000, 250_000)
# Backfitting ends when a sweep changes predictions of rows held out by this share of their errors;
# and most sweeps. On the same trees, errors of 13 sets are 0.9996 of those by conjugate gradients
# to a residual of 1e-2 in the mean (boston 1.011, kin40k 0.994), after 1 to 11 sweeps. With 0.03
# airfoil has 1.008 and boston 1.014; with 0.01 four sets had 0.9 to 1.6 times as many sweeps.
LEVEL_TOL, LEVEL_SWEEPS = 0.02, 100
LEVEL_OUTPUTS = 3  # random combinations of the outputs by which weights are chosen
LEVEL_BYTES = 1.2e9  # of the trees of a fit; bounds the cells where rows or columns are many
# Bytes of a fit at its peak: for each row, for each column or tree of a row, and for each node and
# column of a node. A million rows of 10 columns and 100 trees: 2.03 GB, where the process has 2.06
# with the rows, of which it had 0.30 before.
FIT_ROW_BYTES, FIT_COLUMN_BYTES, FIT_TREE_BYTES, FIT_NODE_BYTES = 250, 20, 10, (120, 8)
# Trees: one for so many rows, within bounds. 100 trees instead of 200 take half the time to
# predict. Errors of four sets with 600 to 1300 rows are then the same; they grow by 1 % with 5200
# rows (wine_quality), by 1.9 % in the mean of six sets with 12 000 to 20 000 rows (kin40k 4.6 %),
# and by 1.2 % with 200 000 rows (nycflights_delay). Five lifetimes instead of three do not make up
# for it. 300 trees: errors 0.2 % lower.
TREE_ROWS = 25
MODEL_TREES = (100, 200)
# Most pairs of rows and trees, some 10 bytes each: 40 trees of ten million rows.
LEVEL_PAIRS_MOST = 400_000_000

# Spread of the errors. Geometric means of the interval score over 14 sets of up to 5000 rows, 700
# of them held out, relative to the choice made: without h 1.022, h with 5 knots 1.007, with 20
# 1.006; errors learnt by the mean of their logarithms 1.02, by one step of scoring 1.002.
# Without functions of the columns 1.010, without cells 1.011.
# Variances of ln s to be learnt on cells, and of each hat function of a column, to choose from.
# Three of cells: score 1.000, 1.17 times the time; two of each: 1.002, 0.79 of the time.
SPREAD_WEIGHTS, SPREAD_COLUMN_WEIGHTS = (0.02, 0.2), (0.003, 0.03, 0.3)
SPREAD_COLUMN_KNOTS = 5  # knots of the function of a column
SPREAD_NUMBERS = 2**25  # of these hat functions at the rows held out; with more there are none
SPREAD_FOLDS = 3  # parts of the rows held out; each has a scale learnt from the others
# Steps of scoring with some of the trees. One more follows with all trees; weights are compared
# after one. With 1 step instead of 2 the score is 1.005, with 3 1.002.
SPREAD_STEPS = 2
# Relative residual of each step. With 1e-2 the score is 1.000 in 1.17 times the time, with 0.05
# 1.001 in 0.9 of it.
SPREAD_TOL, SPREAD_GRADIENT_STEPS = 0.03, 80  # and most steps of conjugate gradients
SPREAD_LARGEST = 5.0  # errors of more than 1 + 5 times their scale count as that in a step
SPREAD_KNOTS, SPREAD_KNOTS_ROWS = 10, 60  # most knots of h, and rows for each
SPREAD_FLOOR = 1e-3  # least mean size of errors at a knot, over their root mean square
# Errors that are not noise fall as N to the power -0.4. Mean coverage of 90 % intervals of 14 sets
# 0.907 (single sets 0.87 to 0.95); with 0, 0.921 (0.88 to 0.96), with 0.7, 0.900 (0.87 to 0.94).
SPREAD_LEARNING = 0.4
# Share of the rows that would count as far from the others if they were new.
SPREAD_UNKNOWN = 0.01
# Most knots of the quantiles, and rows for each. With 5 knots of 250 rows the score is 1.003. With
# 200 rows it is the same, but two to three rows in a hundred less are covered in a fifth of pol.
QUANTILE_KNOTS, QUANTILE_KNOTS_ROWS = 10, 150
RANGE_SHARE = 0.01  # share of rows with the very lowest (highest) y that makes it an end
RANGE_ROWS = 200  # fewer rows show no end: two equal ones would be more than the share

# Classes by logistic loss.
CLASS_ALPHAS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4)  # penalties of the trend
# Features of rows that a trend of log-odds is fitted to, of single precision: 200 MB.
CLASS_TREND_NUMBERS = 50_000 * 1024
CLASS_TREND_STEPS, CLASS_TREND_TOL = 30, 1e-5  # steps of L-BFGS, and relative gain of the last
CLASS_CURVATURE = 0.02  # least curvature p(1 - p) in a step of Newton's method
CLASS_INTERCEPT = 1e-3  # penalty of the intercept over that of the others: next to none
CLASS_LEAST = 1e-6  # least probability whose log-odds are taken
CLASS_OUTPUTS = 3  # classes by which the weights of the levels are chosen
LINK_PRIOR = 1.0  # rows that the prior of the factor and the shifts is worth

# Importances: how much the error on rows held out grows when a column is shuffled. Predictions of
# all shuffles, which take 0.1 s, and fewest and most rows that are shuffled. With twice as many
# rows, deviations are 0.7 times as large.
IMPORTANCE_PREDICTIONS = 2500
IMPORTANCE_ROWS = (40, 1000)
IMPORTANCE_SHUFFLES = 5  # each is of other rows

# Explanations.
# Rows that a row is compared with; the time is in proportion. With 3000 rows fitted, 100 rows take
# 0.58 s of a busy core (california), 0.73 (diamonds) and 0.86 (adult, 13 columns, 7 of text).
BACKGROUND_ROWS = 10
# Each is the best of so many rows, looked for so often. Contributions differ from those with 150
# rows by 0.20 (california), 0.20 (adult) and 0.17 (diamonds) of their size; by 0.25, 0.39 and 0.27
# with one candidate.
BACKGROUND_CANDIDATES, BACKGROUND_ROUNDS = 20, 3
EXPLAIN_ALL_ORDERS = 4  # columns up to which all orders are taken
EXPLAIN_NUMBERS = 2**21  # numbers of rows made at once, 16 MB
EXPLAIN_SHOWN = 3  # rows, columns and similar rows that are printed; they fit on a line
MEASURED_COVERAGE = 0.9  # of the intervals that are measured on rows held out
HTML_COLUMNS = 10  # most important columns that a notebook shows

# Relative duality gap at which the fit of a classifier stops. Picked, not measured.
CLASSIFIER_TOL = 1e-4


# --- _online: streams ---------------------------------------------------------------------------

# Penalty of a stream with alpha="auto", which cannot compare penalties.
STREAM_ALPHA = 0.1
# Trees of a stream with n_estimators="auto". A row takes time in proportion.
STREAM_TREES = 100
# Lifetime of an anomaly score on columns of standard deviation 1, times their number, which is
# about their median L1 distance. Mean AUC over six sets with two kinds of outliers, at lifetimes
# times that distance: 0.85 at 1, 0.88 at 2, 0.91 at 4, 0.93 at 8; 0.85 of isolation forests. At 8
# outliers drawn from the ranges of the columns are found less well: 0.993 instead of 1 on cpu_act.
ANOMALY_LIFETIME = 4.0
# Widths of a stream with lifetime="auto" at first: lifetimes times the sum of the standard
# deviations of the scaled columns. And how many widths there are at most.
FIRST_RUNGS = (0.25, 0.5, 1.0, 2.0, 4.0)
MAX_RUNGS = 5
# Rows that the narrowest cells have on average before a narrower width may be added. Without a
# bound hyperplane had 110 000 cells of 10 000 rows in ten trees: a row in batches of 100 was then
# learnt in 30 µs and predicted in 16, with 16 rows in 8 and 3. Geometric mean of the errors of
# seven streams, three seeds, without a bound and with 4, 8 and 16 rows: 0.2207, 0.2207, 0.2208,
# 0.2208. If no width is ever added, bike has 0.397 instead of 0.374.
CELL_ROWS = 16
# Rows over which the running error of a width is averaged, and after which widths may change.
STREAM_WINDOW = 1024
# Rows from which scale and first widths are taken, a power of 4.
WARM_UP = 1024
# Fewest and most rows of a part when rows are learnt again; between them, those of the batch.
REPLAY_ROWS = (8, 128)
# Factor by which the scale of a column must change for a new start on the last rows to be tried.
RENEWAL_RATIO = 4.0
# Rows between two looks at the last rows. With 1024 a drift is noticed up to 900 rows later.
RENEWAL_STEP = 128
# Rise of the mean loss of the last rows over the lowest one, in its standard errors, that counts as
# a drift; and fewest rows since then on which a new start is tried, twice as many each time. With a
# rise of a quarter for 1024 rows instead, and then one trial on these, errors of 10 000 rows, ten
# trees, three seeds, row by row: Friedman 0.406, now 0.396; Agrawal 0.085, 0.075; slow Agrawal
# 0.154, 0.142. With 2, 4 and 5 errors slow Agrawal has 0.130, 0.147, 0.154, and elec2
# has a new start in one seed of three with 2. Trials on 256 and 1024 rows only: Agrawal 0.078.
RENEWAL_RISE = 3.0
RENEWAL_ROWS = 256
# Fall of the loss from the old stream to the new start, in its standard errors, for it to take
# over; if the loss rises by as much, there are no further trials. The later half of the rows
# counts, as the new start predicts the first ones without knowing any. Geometric mean of the errors
# of ten streams, three seeds, row by row and in batches of 100: with 1, 2 and 3 errors 0.1558,
# 0.1561, 0.1563 and 0.1882, 0.1891, 0.1909; but with 1 elec2 has 0.181 in batches instead of 0.171.
# Giving up early: slow Agrawal 0.151 and 0.146 in batches, elec2 0.171 and 0.169 (five seeds).
RENEWAL_GAIN = 2.0
# Cells of a stream without max_cells, so that its memory is bounded: some 500 MB at ten columns.
STREAM_CELLS = 1_000_000
# Rows after which the relevance of columns is learnt, and learnt again. With 256 the geometric mean
# of the errors of ten streams of 10 000 rows is 0.161 instead of 0.167 row by row and 0.193 instead
# of 0.197 in batches of 100: phishing 0.084 for 0.090, cpu_act 0.197 for 0.205, Agrawal 0.085 for
# 0.094. With 64 as well 0.160 and 0.193, with 512 and 2048 as well 0.3 % less row by row, 0.3 %
# more in batches. Errors of 8000 rows in batches of 100 with 4096 alone and with 1024: bike 0.497
# and 0.375, Agrawal 0.161 and 0.133, Friedman 0.504 and 0.477, cpu_act 0.234 and 0.217, SEA 0.135
# and 0.132.
RELEVANCE_ROWS = (256, 1024, 4096)
# Rows to fit and steps of that. Errors of 8000 rows in batches of 100, ten trees, with 600 rows and
# 60 steps as of a fit, and with 120 and 40, which take a tenth of the time: elec2 0.241, 0.189;
# bike 0.404, 0.390; nycflights_delay 1.013, 1.012; cpu_act 0.231, 0.234; Friedman 0.533, 0.528;
# SEA 0.135, 0.136; Agrawal 0.151, 0.150; hyperplane 0.163, 0.161; phishing 0.099, 0.100. With 20
# steps row by row, 10 000 rows and six seeds: elec2 0.0528 instead of 0.0508, slow Agrawal 0.142
# instead of 0.134.
RELEVANCE_STEP_ROWS, RELEVANCE_STEPS = 120, 40
# Half-lives of rows, in rows, with forgetting="auto": learners of each predict together. Geometric
# mean of the errors of ten streams of 5000 rows, ten trees, two seeds, with 1000, 500 and 350 rows:
# 0.2119, 0.2109, 0.2101 in batches of 100, 0.1797, 0.1791, 0.1780 row by row; with three learners,
# of 1000 and 200 rows beside the first, 0.2123 in batches. With 350 rows a stream that does not
# change errs 1.1 % more than without forgetting.
HALF_LIVES = (float("inf"), 500.0)
# Weight of a new row over that of an old one at which tables are put into other units.
LARGEST_GROWTH = 1e100
# Share that rows keep of their weight in the mixture of learners, and rows that equal weights of
# the learners are worth at first. On cpu_act in batches of 100, without relevances: error 0.355 by
# regression, 0.386 by exponential weights, 0.364 of the best learner alone.
MIXTURE_KEEP = 1.0 - 1.0 / 2000.0
MIXTURE_PRIOR = 25.0
# Linear learners of a stream: standard deviations from the mean at which columns are cut off, and
# most columns, since a row takes O(columns²). Errors of 5000 rows in batches of 100, ten trees,
# without them and with columns cut off at 10 and at 4: hyperplane 0.178, 0.078, 0.078; phishing
# 0.107, 0.093, 0.093; Friedman 0.550, 0.495, 0.495; SEA 0.143, 0.137, 0.137; nycflights_delay
# 1.010, 0.995, 0.993; cpu_act 0.231, 0.227, 0.218; elec2 0.176, 0.181, 0.176; bike 0.377, 0.375,
# 0.373; Agrawal 0.159, 0.159, 0.159.
LINEAR_END = 4.0
LINEAR_COLUMNS = 64
# Rows of the running means of the targets that predict beside the learners. One row at a time they
# lower the error of bike from 0.568 to 0.506 and of elec2 from 0.101 to 0.094, and change that of
# six other streams by less than 1 %.
MEAN_ROWS = (1.0, 8.0, 64.0)
# Curvature of a loss over its bound, at least: Newton steps where a loss is flat go astray. Wrong
# on the first 6000 rows of elec2, row by row: 0.089 with 0.2, 0.099 with 1.
LEAST_CURVATURE = 0.2
# Weight of a learner, over the largest one, below which it does not predict: it costs time.
LEAST_SHARE = 1e-3
# Last rows of a stream whose errors set the error bars, and the half-life of their weights in rows,
# which is at most a share of all rows: young streams still learn fast. Share of test rows inside
# 90 % intervals after 500 rows in batches of 100, ten trees and ten seeds, with a share of 1, 1/8
# and 1/16: ten columns that are a line 0.99, 0.96, 0.94; Friedman 0.90, 0.91, 0.92; noise alone
# 0.88, 0.89, 0.91.
RECENT_ROWS = 1024
ERROR_HALF_LIFE, ERROR_HALF_SHARE = 128, 0.125
# Local size of a stream's errors: half-life of rows in the means of ln|error| of cells, and rows
# that the mean of all cells counts as.
SIZE_HALF_LIFE = 1000.0
SIZE_SHRINKAGE = 20.0
# Prior variance of a stream's intercept, in the units of its penalty: next to no prior.
FLAT_VARIANCE = 1e6
# Rows or cells, whichever are fewer, up to which rows are added to a ridge fit exactly. A row then
# takes O(EXACT_SIZE²) operations.
EXACT_SIZE = 4000
# The exact ridge is factored anew in the other form, by rows or by cells, if that is smaller by
# this factor; not by less, so that it does not go to and fro.
EXACT_CHANGE = 1.25
# Largest slope of the objective at the exact ridge's weights, over the slope at zero weights. Where
# rounding has added up to more, the ridge is factored anew.
EXACT_DRIFT = 1e-12


# --- faces: features, encoder, baselines, partition, plotting, persistence ----------------------

# Categories of a column up to which each gets a column of its own; the cost of trees grows with
# each. And folds of the rows that means of y, for columns with more, are cross-fitted in.
MAX_CATEGORIES = 50
TARGET_FOLDS = 5

# Special values of a number: rows that have the value, nearest rows on either side, standard errors
# by which the means of y differ, and values a column must have beyond. With 25 rows, 100 neighbours
# and 4 errors, and with 10, 50 and 6: adult 12.7 and 12.5 % errors, without special values 13.5 %;
# concrete +4 and +1 %. Cross-fitted, on three splits: adult 13.1 instead of 13.9 %. Columns with
# few values need none: cuts on both sides set one apart. Of many classes each would have special
# values of its own: satimage +17 %.
SPECIAL_ROWS, SPECIAL_NEIGHBOURS, SPECIAL_ERRORS = 10, 50, 6.0
SPECIAL_LEAST_VALUES = 32

# Bytes. A partition of a box that is expected to need more memory is refused before it starts: at
# two columns this is 8.4 million cells, more than any picture or test uses.
PARTITION_MAX_BYTES = 2**30

# Model files. A file may claim so many bytes in memory for each of its bytes, and so many bytes
# beyond. A regressor of 5000 rows and 300 trees has 3 for each; zlib could have 1032.
FILE_EXPANSION = 64
FILE_EXPANSION_FREE = 2**24
# The same for the nodes of a model, which a file holds packed. With ten columns it has 12 for each,
# with a hundred columns 60.
FILE_UNPACKED = 512
# Level of compression: that regressor takes 1.6 s and 51 MB, at level 6 it takes 4.0 s and 48 MB.
FILE_LEVEL = 1
# An array is compressed if that makes some of its bytes, from the middle, smaller than this share.
# A fit of 20 000 rows and 200 trees (california) is saved in 0.37 CPU seconds and 27.7 MB, at 0.95
# in 0.66 and 26.2.
FILE_PROBE, FILE_GAIN = 2**16, 0.5
# A stream after a fit keeps its rows for files until there are so many times those of the fit. That
# fit with 500 rows more is saved in 0.25 CPU seconds and 55 MB; by its boxes in 0.55 and 94 MB.
# Rows and their leaves take 16 of the 700 MB of the stream, and no more than twice as much.
KEPT_ROWS = 2
# Nodes whose boxes are compared with those of their parents at once. Boxes of 1.6 million nodes and
# eight columns take 0.05 CPU seconds, and 0.16 to 0.65 all at once, in memory that is new.
CHECK_NODES = 2**14


# --- dask ---------------------------------------------------------------------------------------

# Rows in blocks.
SLAB_NUMBERS = 2**22  # numbers made of the rows of a block at once, 16 MB or 32 MB
BLOCK_COPIES = 4  # a block as it was read, as a frame, as an array, and scaled
CODE_BYTES = 60_000_000  # compiled code when it first runs on a worker

# Growth in rounds. Rows of a slab, which 16 bits number. Each slab has a table of the open nodes.
# Slabs of 8192 rows take 0.8 (140 cells a tree) to 1.4 times as long (19 000 cells).
ROUND_ROWS = 2**16
# Trees that grow at once, at least; else rows go down all trees in every round. CPU seconds over
# growth in one place (10⁶ rows, 10 columns in 8 blocks, 24 trees of 113 cells): all trees at once
# 0.9 to 1.4 in threads and 1.9 to 2.7 on two workers, 8 at once 1.4 and 4.9, down all trees 2.6 to
# 3.2 and 4.6.
ROUND_TREES_LEAST = 8
ROUND_STEP = 1.5  # expected cuts per cell in a step with a bound on cells: a step costs rounds

# Linear models.
SUM_CELLS = 8000  # cells up to which a square matrix is summed up, 512 MB
SUM_PANEL_NUMBERS = 2**21  # numbers of it that a block answers with at once, 16 MB
BLOCK_TOL = 1e-10  # relative residual of a ridge fit by Lanczos
BLOCK_PATH_TOL = 1e-4  # the same along a path; it ranks widths as well as an exact solution
LBFGS_MEMORY = 20  # steps that L-BFGS remembers
LBFGS_STEPS = 1000  # most steps


# --- app: command line, tables from files, report -----------------------------------------------

# Tables from files.
HEADER_BYTES = 2**20  # bytes read to find the header; a header of 10 000 long names has less
NAMES_IN_ERRORS = 12  # column names that an error lists; they fit on two lines
EXACT_DIGITS = 40  # digits of whole numbers kept in categories; 128-bit identifiers have 39

# Fits of tables.
COVERAGE = 0.9  # coverage of the intervals that are measured and reported
LEARN_BLOCK_ROWS = 5000  # rows between two reports of progress while learning
PREDICT_BLOCK_ROWS = 2000  # rows predicted at once; 1000 trees then need 30 MB

# Commands.
PATH_TREES = 350  # trees of the command "path", as in the paper
PATH_ROWS = 4000  # rows of the command "path"; the dense solver takes about a minute
DEMO_ROWS = 2000  # rows to learn from, and as many to test; the exact kernel then takes 3 s
DEMO_COMPILE_ROWS = 300  # rows fitted once before the clock starts, to compile
PROGRESS_WIDTH = 24  # characters of the progress bar
PROGRESS_SECONDS = 0.5  # seconds between two drawings of it
PIPE_BYTES = 2**16  # bytes written to a pipe at once; the size of a pipe on Linux
COLUMNS_LISTED = 6  # most important columns that are printed, one a line
CATEGORIES_SHOWN = 6  # categories of a column that "inspect" prints; they fit on a line

# Report. A page must stay below 1 MB and take less than a minute to write.
POINTS_SHOWN = 1000  # test rows drawn as points
BARS_SHOWN = 80  # intervals drawn
COVERAGE_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # coverages asked for; holds COVERAGE
CLASSES_SHOWN = 12  # lines of the confusion matrix, and colours that can be told apart
PROBABILITY_BINS = 10  # bins of the reliability figure
CURVE_POINTS = 200  # points of an ROC or precision-recall curve; two for each pixel
THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)  # probabilities whose counts are listed
SHUFFLES = 3  # times that each column is shuffled, if the fit has left no importances
SHUFFLE_ROWS = 300  # most test rows that are then shuffled
COLUMNS_SHOWN = 20  # bars of the figure on columns
COLUMNS_DRAWN = 4  # most important columns whose effect is drawn
DEPENDENCE_ROWS = 100  # test rows over which such an effect is averaged
DEPENDENCE_POINTS = 16  # values of a number, or most categories, at which it is
DEPENDENCE_RANGE = (0.02, 0.98)  # quantiles of a number between which these lie
WORST_ROWS, WORST_COLUMNS = 10, 6  # rows and columns in the table of the worst test rows
SURFACE_SIDE = 48  # pixels of a side of the surface
SURFACE_POINTS = 300  # fitted rows drawn among the cells
