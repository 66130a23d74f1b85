"""Every hand-picked number of the library, with its unit and the measurement behind it."""

# --- _trees: growth, extension, threads ---------------------------------------------------------

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


# --- _path: lifetimes to evaluate, when to stop -------------------------------------------------


# --- _model: scale, relevance, choice of the kernel, intervals ----------------------------------


# --- _online: streams ---------------------------------------------------------------------------


# --- faces: features, baselines, partition, plotting, persistence -------------------------------


# --- dask ---------------------------------------------------------------------------------------


# --- app: command line, tables from files, report -----------------------------------------------
