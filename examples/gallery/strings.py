"""Texts and sequences of symbols.

`X` is a list of strings; a kernel on strings compares the pieces that they share. Nothing need be aligned or turned
into columns.
"""

import numpy as np

from stratagp import GPClassifier
from stratagp import kernels as k

rng = np.random.default_rng(0)
genes = ["".join(rng.choice(list("ACGT"), size=30)) for _ in range(160)]
kind = np.array(["promoter" if "TATA" in gene or "TTAA" in gene else "other" for gene in genes])
genes = [gene[:10] + "TATAA" + gene[15:] if i % 3 == 0 else gene for i, gene in enumerate(genes)]
kind[::3] = "promoter"

gp = GPClassifier(k.Spectrum(4, lengthscale=1.0)).fit(genes[:110], kind[:110])
print(
    f"right: {gp.score(genes[110:], kind[110:]):.0%} of 50 new sequences; "
    f"the larger class has {np.mean(kind[110:] == 'other'):.0%}"
)
for gene in ("ACGCGTATAAGGCACG", "ACGCGGCGCCGGCACG"):
    print(gene, f"promoter with probability {gp.predict_proba([gene])[0, 1]:.2f}")
