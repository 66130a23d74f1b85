"""Learning from a stream of rows: learners that take each row once, and the width on the way."""
