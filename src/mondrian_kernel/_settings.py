"""Every hand-picked number of the library, with its unit and the measurement behind it."""

# --- _trees: growth, extension, threads ---------------------------------------------------------


# --- _linear: operators and solvers -------------------------------------------------------------


# --- _path: lifetimes to evaluate, when to stop -------------------------------------------------


# --- _model: scale, relevance, choice of the kernel, intervals ----------------------------------


# --- _online: streams ---------------------------------------------------------------------------


# --- faces: features, baselines, partition, plotting, persistence -------------------------------

# Bytes. A partition of a box that is expected to need more memory is refused before it starts: at
# two columns this is 8.4 million cells, more than any picture or test uses.
PARTITION_MAX_BYTES = 2**30


# --- dask ---------------------------------------------------------------------------------------


# --- app: command line, tables from files, report -----------------------------------------------
