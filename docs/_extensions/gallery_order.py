"""The order of the examples: from the first thing one needs to the last."""

ORDER = (
    "plot_width_learning.py",
    "plot_relevance.py",
    "plot_bayesian_width.py",
    "plot_classification.py",
    "plot_pipeline.py",
    "plot_stream.py",
    "plot_large_n.py",
    "plot_new_points.py",
    "plot_kernel_and_forest.py",
    "plot_hand_on_width.py",
)


class GalleryOrder:
    """Key to sort the files of a folder by; one that is not in the order ends the build."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        return ORDER.index(filename)
