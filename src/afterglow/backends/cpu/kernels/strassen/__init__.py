"""Products with fewer multiplications: one level of Strassen's algorithm, in Winograd's variant.

lhs and rhs are cut into quarters, and seven products of sums of them replace eight. With

    s1 = a21 + a22, s2 = s1 - a11, s3 = a11 - a21, s4 = a12 - s2     (left factors)
    t1 = b12 - b11, t2 = b22 - t1, t3 = b22 - b12, t4 = t2 - b21     (right factors)

and x = a11 b11 + s2 t2, y = s1 t1, the quarters of the result are

    c11 = a11 b11 + a12 b21     c12 = x + y + s4 b22
    c21 = x + s3 t3 - a22 t4    c22 = x + s3 t3 + y

rhs is a constant: its sums are made when a model is compiled. A panel of columns goes through all
seven products before the next, so that what lies between them stays in near caches.
"""

from afterglow.backends.cpu.kernels.strassen.multiply import strassen_algorithm
from afterglow.backends.cpu.kernels.strassen.plan import StrassenPlan, plan_strassen
from afterglow.backends.cpu.kernels.strassen.product import StrassenProduct
from afterglow.backends.cpu.kernels.strassen.ranged import plan_ranged_strassen
from afterglow.backends.cpu.kernels.strassen.weights import packed_panels

__all__ = [
    "StrassenPlan",
    "StrassenProduct",
    "packed_panels",
    "plan_ranged_strassen",
    "plan_strassen",
    "strassen_algorithm",
]
