"""Every hand-picked number of the library, with its unit and the measurement behind it."""

# --- _trees: growth, extension, threads ---------------------------------------------------------

# Lifetimes that stand for a distribution: equally likely quantiles. With 16 the kernel of a Gamma
# distribution is off by less than 0.01.
DISTRIBUTION_LEVELS = 16
# Expected cuts per cell in one step of a growth with a bound on the number of cells. A step may
# overrun the bound by about this share.
GROWTH_STEP = 0.5
# Elementary operations below which a second thread does not pay for itself.
THREAD_WORK = 500_000
# Rows that go down one tree before the next tree: they and the tree's nodes stay in the cache.
# Compiled kernels keep the value they were compiled with: after a change delete their cache.
WALK_ROWS = 1024
# Nodes, or leaves in growth, that a table has room for beyond those it starts with.
SPARE_NODES = 64


# --- _linear: operators and solvers -------------------------------------------------------------

# Shares of the trees whose products are added up in order, so that threads change nothing. More
# threads than that do not help.
OPERATOR_SHARES = 4

# Products with the cells of trees.
RUN_ROW_SHARE = 0.06  # share of N; a run of trees grows until so many distinct rows are in it
RUN_BLOCK_ENTRIES = 8000  # entries side by side: with eight numbers each they stay in the cache
RUN_SHARES = 4  # sums over so many shares of the runs are added in order, whatever the threads
GRAM_GROUPS = 8  # the same for groups of trees whose values differ
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
LOG_PIECE = 1.2  # length in ln s of a piece of the integral; eight nodes leave only rounding
PROBE_EXACT_ROWS = 500  # up to so many rows diagonals are exact, from each unit vector
UNIT_VECTORS_AT_ONCE = 64
PROBE_NUMBERS = 8000  # random vectors times rows; between the two bounds below
PROBES_LEAST, PROBES_MOST = 2, 16
PROBE_BIN = 32  # rows whose noisy diagonals are smoothed together
PATH_PROBE_TOL = 0.3  # relative residual along a path: few random vectors are noisier than that
FIT_PROBES = 8  # random vectors for one fit
ONE_FIT_PROBE_TOL = 1e-2  # their relative residual

# Predictive variance.
VARIANCE_RTOL = 1e-6  # relative error of a variance by conjugate gradients
VARIANCE_SAMPLE_ROWS = 8000  # rows of the sample above VARIANCE_DENSE_SIZE, a factor of 512 MB
VARIANCE_CHECK_ROWS = 2000  # rows outside the sample that correct it
VARIANCE_ODDS = (1e-6, 1e2)  # bounds on the correction

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
ROW_TREE_ORDERS = 8  # sorted orders of the rows in which neighbours are sought
ROW_TREE_KEYS = 48  # partitions by which an order is sorted


# --- _path: lifetimes to evaluate, when to stop -------------------------------------------------

# Lifetimes and stopping.
PATH_GROUP = 8  # lifetimes scored together: eight columns of a product cost as much as one
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
# there are some hundreds; fewer do where they have many cells.
EXACT_ROWS, EXACT_TREES = 2000, 1500
CHOICE_ROWS, CHOICE_TREES, CHOICE_TREES_LEAST, CHOICE_CELLS = 10_000, 400, 200, 200_000
WINDOW = (0.5, 2.0, 8)  # factors of the lifetime from, to, and how many
EXACT_WINDOW = (0.5, 2.0, 7)  # each lifetime takes an eigendecomposition
EVIDENCE_WINDOW = (0.3, 3.0, 16)  # as wide as the posterior of a width may be
NEAR_ALPHAS = (-0.5, 1.5, 5)  # exponents of 10; larger ones are free in one Krylov space
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

# Relevances of columns.
RELEVANCE_ROWS = 1000  # rows in the sample; 600 to 2000 gave the same errors within noise
RELEVANCE_PAIRS = 50_000_000  # rows² · columns; bounds the rows where there are many columns
# Standard deviation of the logarithms of relevances before any row is seen; 0.2 to 0.8 were tried.
# A prior of 1 where rows held out preferred it was tried too: over six data sets errors changed by
# -2 to +4 % and by +0.6 % on average, so it was left out.
RELEVANCE_PRIOR = 0.35
RELEVANCE_STEPS = 20  # steps of descent
# Where the descent begins: λ times the mean distance, and penalties, tried on a few rows.
RELEVANCE_LIFETIMES, RELEVANCE_ALPHAS = (0.3, 1.0, 3.0), (1e-3, 1e-2, 1e-1, 1.0)
RELEVANCE_START_ROWS = 300
RELEVANCE_FLOOR = 1e-6  # share of the variance of y below which errors count as none
LEAST_NOISE = 1e-9  # keeps a matrix of nearly equal rows definite
RELEVANCE_DECIMALS = 2  # digits kept, so that rounding errors do not show

WIDTH_HELD_OUT_SHARE = 0.25  # share of the rows held out to learn the weights of widths
# Mixtures of widths: lifetimes in units of the best single one. A sixth lifetime, 8, was tried on
# california: its weight was 0.03, and growing the trees to it took most of the time of the fit.
LADDER = (0.25, 0.5, 1.0, 2.0, 4.0)
WIDTH_ROWS, WIDTH_ROWS_HELD_OUT = 4000, 2000  # most rows that weights are learnt from
WIDTH_TREES = 200  # most trees for that
WIDTH_STEPS = 12  # values and gradients on the way; bounds the time, not measured otherwise
WIDTH_GRADIENT_TOL, WIDTH_GRADIENT_STEPS = 3e-3, 100  # of each solve on the way
WIDTH_LEAST_WEIGHT = 0.04  # share below which a lifetime is left out; narrow ones cost the most
# What a mixture must gain over one width: 2 in n/2 · ln(error) is 0.2 % of the squared error at
# 2000 rows held out, less than their noise.
WIDTH_WORTH = 2.0
LEAST_ERROR = 1e-9  # share of the variance of y below which errors count as none

# Relative duality gap at which the fit of a classifier stops. Picked, not measured.
CLASSIFIER_TOL = 1e-4


# --- _online: streams ---------------------------------------------------------------------------

# Penalty of a stream with alpha="auto", which cannot compare penalties.
STREAM_ALPHA = 0.1
# Trees of a stream with n_estimators="auto". A row takes time in proportion.
STREAM_TREES = 100
# Widths of a stream with lifetime="auto" at first: lifetimes times the sum of the standard
# deviations of the scaled columns. And how many widths there are at most.
FIRST_RUNGS = (0.25, 0.5, 1.0, 2.0, 4.0)
MAX_RUNGS = 5
# Narrower widths than the best that are kept, as the best may still move.
RUNGS_ABOVE = 2
# Rows over which the running error of a width is averaged, and after which widths may change.
STREAM_WINDOW = 1024
# Rows from which scale and first widths are taken, a power of 4.
WARM_UP = 1024
# Rows after which the relevance of columns is learnt, and how many of them are used for it.
RELEVANCE_AT = 4096
STREAM_RELEVANCE_ROWS = 400
# Last rows of a stream whose errors set the error bars.
RECENT_ROWS = 1024
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


# --- faces: features, baselines, partition, plotting, persistence -------------------------------

# Bytes. A partition of a box that is expected to need more memory is refused before it starts: at
# two columns this is 8.4 million cells, more than any picture or test uses.
PARTITION_MAX_BYTES = 2**30

# Model files. A file may claim so many bytes in memory for each of its bytes, and so many bytes
# beyond. A regressor of 5000 rows and 300 trees has 3 for each; zlib could have 1032.
FILE_EXPANSION = 64
FILE_EXPANSION_FREE = 2**24


# --- dask ---------------------------------------------------------------------------------------

# Rows in blocks.
SLAB_NUMBERS = 2**22  # numbers made of the rows of a block at once, 16 MB or 32 MB
BLOCK_COPIES = 4  # a block as it was read, as a frame, as an array, and scaled
CODE_BYTES = 60_000_000  # compiled code when it first runs on a worker

# Growth in rounds. Rows that are sorted into nodes together should stay in the cache: in slabs of
# 10 000 rows of 10 columns the kernels take 1.1 to 1.6 times as long as growth in one place, with
# 100 000 rows at once 1.5 to 2.7 times. Dask's own work comes on top.
ROUND_NUMBERS = 2**17  # numbers of a slab of rows, 1 MB
ROUND_ROWS_LEAST = 8192  # rows of a slab at least, since each has a table of the open nodes
ROUND_STEP = 1.5  # expected cuts per cell in a step with a bound on cells: a step costs rounds

# Linear models.
SUM_CELLS = 8000  # cells up to which a square matrix is summed up, 512 MB
SUM_PANEL_NUMBERS = 2**21  # numbers of it that a block answers with at once, 16 MB
STD_NUMBERS = 2**23  # numbers held at once for the error bars of new rows, 64 MB
BLOCK_TOL = 1e-10  # relative residual of a ridge fit by Lanczos
BLOCK_PATH_TOL = 1e-4  # the same along a path; it ranks widths as well as an exact solution
LBFGS_MEMORY = 20  # steps that L-BFGS remembers
LBFGS_STEPS = 1000  # most steps
CLASS_SAMPLE_ROWS = 10_000  # rows that are fetched to choose the width of a classifier


# --- app: command line, tables from files, report -----------------------------------------------

# Tables from files.
HEADER_BYTES = 2**20  # bytes read to find the header; a header of 10 000 long names has less
NAMES_IN_ERRORS = 12  # column names that an error lists; they fit on two lines
EXACT_DIGITS = 40  # digits of whole numbers kept in categories; 128-bit identifiers have 39
MAX_CATEGORIES = 50  # encoded columns of a text column; the kernel's cost grows with each

# Fits of tables.
COVERAGE = 0.9  # coverage of the intervals that are measured and reported
# Rows that are fitted at once. The error bars of a regression need a matrix of this size: 512 MB.
ROWS_AT_ONCE = {"regression": 8000, "classification": 50_000}
TABLE_TREES = (100, 400)  # fewest and most trees of a fit of more rows than that
STREAM_WORK = 100_000_000  # rows times trees of such a fit; time is in proportion, some minutes
STREAM_BOX_BYTES = 5e8  # bytes for the boxes of all cells of such a fit
LEARN_BLOCK_ROWS = 5000  # rows between two reports of progress while learning
PREDICT_BLOCK_ROWS = 2000  # rows predicted at once; 1000 trees then need 30 MB

# Commands.
PATH_TREES = 350  # trees of the command "path", as in the paper
PATH_ROWS = 4000  # rows of the command "path"; the dense solver takes about a minute
DEMO_LIFETIME = 5.0  # true lifetime of the demo's function
DEMO_NOISE = 0.1  # standard deviation of its noise; the function's is 1
DEMO_COLUMNS = 2  # so that the report shows the plane
DEMO_ROWS = 1000  # rows to learn from, and as many to test; the demo takes some seconds
PROGRESS_WIDTH = 24  # characters of the progress bar
PROGRESS_SECONDS = 0.5  # seconds between two drawings of it
PIPE_BYTES = 2**16  # bytes written to a pipe at once; the size of a pipe on Linux
RELEVANCES_SHOWN = 4  # most relevant columns that are printed; they fit on a line
CATEGORIES_SHOWN = 6  # categories of a column that "inspect" prints; they fit on a line

# Report. A page must stay below 1 MB and take less than a minute to write.
REPORT_TEST_ROWS = 10_000  # test rows; the error then has a standard error of about 1 %
SLIDER_ROWS = 1500  # rows of the small models; each then takes a fraction of a second
SLIDER_TREES = 200  # trees of the small models
SLIDER_POSITIONS = 15  # lifetimes taken from a path
SLIDER_OCTAVES = (-3, 2)  # range of the slider around the model's lifetime, in powers of two
SLIDER_STEPS_PER_OCTAVE = 2
POINTS_SHOWN = 300  # test rows drawn at each position of the slider, regression
CLASS_TEST_ROWS = 1000  # test rows counted at each position of the slider, classification
CLASSES_SHOWN = 12  # lines of the confusion matrix, and colours that can be told apart
PROBABILITY_BINS = 10  # bins of the reliability figure
BARS_SHOWN = 80  # intervals drawn
# Rows up to which exact error bars are made (see PredictiveVariance); above, a row costs more.
INTERVAL_ROWS_DENSE = 1000  # test rows with intervals up to that size
INTERVAL_ROWS = 50  # test rows with intervals above it, each solved with a factor of 8000 rows
COVERAGE_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # coverages asked for; holds COVERAGE
SHUFFLES = 3  # times that each column is shuffled
SHUFFLE_PREDICTIONS = 30_000  # predictions for all shuffles of all columns
SHUFFLE_ROWS = (100, 500)  # fewest and most test rows that are shuffled
COLUMNS_SHOWN = 20  # bars of the figure on columns
SURFACE_SIDE = 48  # pixels of a side of the surface; 25 frames then have 60 kB
SURFACE_POINTS = 300  # fitted rows drawn among the cells
