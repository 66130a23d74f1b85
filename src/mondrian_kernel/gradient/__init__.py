"""Linear learners trained by gradients on sparse features: arrays in, arrays out."""
