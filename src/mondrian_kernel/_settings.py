"""Every hand-picked number of the library, with its unit and the measurement behind it."""

# --- _trees: growth, extension, threads ---------------------------------------------------------

# Lifetimes that stand for a distribution: equally likely quantiles. With 16 the kernel of a Gamma
# distribution is off by less than 0.01.
DISTRIBUTION_LEVELS = 16


# --- _linear: operators and solvers -------------------------------------------------------------


# --- _path: lifetimes to evaluate, when to stop -------------------------------------------------


# --- _model: scale, relevance, choice of the kernel, intervals ----------------------------------


# --- _online: streams ---------------------------------------------------------------------------


# --- faces: features, baselines, partition, plotting, persistence -------------------------------


# --- dask ---------------------------------------------------------------------------------------


# --- app: command line, tables from files, report -----------------------------------------------
