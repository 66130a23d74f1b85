"""Every hand-picked number of the library, with its unit and the measurement behind it."""

# --- _trees: growth, extension, threads ---------------------------------------------------------


# --- _linear: operators and solvers -------------------------------------------------------------


# --- _path: lifetimes to evaluate, when to stop -------------------------------------------------


# --- _model: scale, relevance, choice of the kernel, intervals ----------------------------------


# --- _online: streams ---------------------------------------------------------------------------


# --- faces: features, baselines, partition, plotting, persistence -------------------------------


# --- dask ---------------------------------------------------------------------------------------


# --- app: command line, tables from files, report -----------------------------------------------

# Tables from files.
HEADER_BYTES = 2**20  # bytes read to find the header; a header of 10 000 long names has less
NAMES_IN_ERRORS = 12  # column names that an error lists; they fit on two lines
EXACT_DIGITS = 40  # digits of whole numbers kept in categories; 128-bit identifiers have 39
MAX_CATEGORIES = 50  # encoded columns of a text column; the kernel's cost grows with each

# Fits of tables.
HELD_OUT_SHARE = 0.2  # share of the rows; the usual fifth
COVERAGE = 0.9  # coverage of the intervals that are measured and reported
# Rows that are fitted at once. The error bars of a regression need a matrix of this size: 512 MB.
ROWS_AT_ONCE = {"regression": 8000, "classification": 50_000}
STREAM_TREES = (100, 400)  # fewest and most trees of a fit of more rows than that
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
INTERVALS_DENSE_SIZE = 10_000
INTERVAL_ROWS_DENSE = 1000  # test rows with intervals up to that size
INTERVAL_ROWS = 50  # test rows with intervals above it, each solved with a factor of 8000 rows
COVERAGE_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # coverages asked for; holds COVERAGE
SHUFFLES = 3  # times that each column is shuffled
SHUFFLE_PREDICTIONS = 30_000  # predictions for all shuffles of all columns
SHUFFLE_ROWS = (100, 500)  # fewest and most test rows that are shuffled
COLUMNS_SHOWN = 20  # bars of the figure on columns
SURFACE_SIDE = 48  # pixels of a side of the surface; 25 frames then have 60 kB
SURFACE_POINTS = 300  # fitted rows drawn among the cells
