"""What several kernels were learnt with before: the classifiers that DFGP's paper compares itself with.

Each takes views, a mapping of names to arrays or a list of arrays, with an RBF kernel at the median distance on each;
or kernels that are computed already. Labels are of two classes.
"""

from stratagp.baselines.average_kernel import AverageKernelSVC as AverageKernelSVC
from stratagp.baselines.bemkl import BEMKLClassifier as BEMKLClassifier
from stratagp.baselines.mkgp import MKGPClassifier as MKGPClassifier
