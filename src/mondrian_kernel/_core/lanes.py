"""Rows of eight numbers, one cache line, added in one instruction where the machine has it.

The vectoriser leaves loops of eight alone, since for all it knows the rows may overlap; saying it
outright doubles the speed of a product.
"""

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

LANES = 8


def _pointer(context, builder, kind, array, i):
    data = context.make_array(kind)(context, builder, array).data
    row = builder.gep(data, [builder.mul(i, ir.Constant(i.type, LANES))], inbounds=True)
    return builder.bitcast(row, ir.VectorType(ir.DoubleType(), LANES).as_pointer())


def _set_sum(typing_context, A, i, B, j, C, k):
    def generate(context, builder, signature, arguments):
        to, *terms = (
            _pointer(context, builder, kind, array, row)
            for kind, array, row in zip(
                signature.args[::2], arguments[::2], arguments[1::2], strict=True
            )
        )
        builder.store(builder.fadd(*(builder.load(term, align=8) for term in terms)), to, align=8)
        return context.get_dummy_value()

    rows = types.Array(types.float64, 2, "C")
    if {A, B, C} != {rows}:
        return None
    return types.void(A, types.intp, B, types.intp, C, types.intp), generate


def _set_sum_in_python(A, i, B, j, C, k):
    A[i] = B[j] + C[k]


# ``A[i] = B[j] + C[k]`` for float64 (·, 8), contiguous; no bounds are checked.
set_sum = _set_sum_in_python if config.DISABLE_JIT else intrinsic(_set_sum)
