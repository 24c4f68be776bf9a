"""Cases of the string kernels: every one again as a dictionary of features, counted symbol by symbol."""

from collections import Counter
from functools import partial
from itertools import combinations, product

import numpy as np

from stratagp import kernels
from tests.kernels.case import Case


def part(i, length, positions):
    return i * positions // length


def words(a, k, skip=()):
    return [(i, tuple(a[i : i + k])) for i in range(len(a) - k + 1) if not set(a[i : i + k]) & set(skip)]


def spectrum(a, k, positions=1, skip=()):
    return Counter((part(i, len(a), positions), word) for i, word in words(a, k, skip))


def mismatch(a, k, m, alphabet, positions=1):
    found = Counter()
    for i, word in words(a, k):
        if set(word) <= set(alphabet):
            for other in product(alphabet, repeat=k):
                if sum(x != y for x, y in zip(word, other, strict=True)) <= m:
                    found[part(i, len(a), positions), other] += 1
    return found


def wildcard(a, k, m, decay, skip=()):
    found = Counter()
    for _, word in words(a, k):
        for stars in range(m + 1):
            for at in combinations(range(k), stars):
                feature = tuple(None if i in at else x for i, x in enumerate(word))
                if not set(feature) & set(skip):
                    found[feature] += decay**stars
    return found


def gapped(a, g, k, decay=None, positions=1, skip=()):
    found = Counter()
    for i in range(len(a) - g + 1):
        here = Counter()
        for at in combinations(range(i, i + g), k):
            word = tuple(a[j] for j in at)
            if not set(word) & set(skip):
                here[word] += 1 if decay is None else decay ** (at[-1] - at[0] + 1 - k)
        for word, weight in here.items():
            found[part(i, len(a), positions), word] += 1 if decay is None else weight
    return found


def spatial(a, t, k, d, positions=1, skip=()):
    found = Counter()
    for i, gaps in product(range(len(a)), product(range(d), repeat=t - 1)):
        starts = [i + k * j + sum(gaps[:j]) for j in range(t)]
        read = [tuple(a[s : s + k]) for s in starts]
        if starts[-1] + k <= len(a) and not {x for word in read for x in word} & set(skip):
            found[part(i, len(a), positions), gaps, tuple(read)] += 1
    return found


ALIKE = np.exp(-0.7 * np.abs(np.subtract.outer(np.arange(5), np.arange(5))))  # of a, b, c, d, e


def similar(a, d, symbols="abcde", alike=ALIKE, positions=1, skip=()):
    """Every pair also as all others, by the entries of the symmetric root of the similarity."""
    value, vector = np.linalg.eigh(alike)
    root, known = vector * np.sqrt(value) @ vector.T, set(symbols) - set(skip)
    found = Counter()
    for i, gap in product(range(len(a)), range(1, d + 1)):
        if i + gap < len(a) and {a[i], a[i + gap]} <= known:
            left, right = root[symbols.index(a[i])], root[symbols.index(a[i + gap])]
            for v, w in product(range(len(symbols)), repeat=2):
                found[part(i, len(a), positions), gap, v, w] += left[v] * right[w]
    return found


def subsequence(a, length, decay, skip=()):
    found = Counter()
    for at in combinations(range(len(a)), length):
        word = tuple(a[i] for i in at)
        if not set(word) & set(skip):
            found[word] += decay ** (at[-1] - at[0] + 1)
    return found


def inner(u, v):
    return float(sum(count * v[feature] for feature, count in u.items() if feature in v))


def inner_products(features, x, z):
    left, right = [features(a) for a in x], [features(b) for b in z]
    return np.array([[inner(u, v) for v in right] for u in left]).reshape(len(x), len(z))


def normalised(features, x, z):
    """Sequences without a feature are alike to one another alone."""
    left, right = ([inner(features(a), features(a)) for a in list_] for list_ in (x, z))
    size = np.sqrt(np.outer(left, right))
    alike = np.equal.outer(left, right).astype(float)
    return np.where(size > 0, inner_products(features, x, z) / np.where(size > 0, size, 1), alike)


def texts(alphabet, count=12, longest=30, seed=0):
    """Random strings, the shortest empty, of single symbols next, and with one that repeats a single symbol."""
    random = np.random.default_rng(seed)
    lengths = [0, 0, 1, 1, 2, *random.integers(2, longest + 1, count - 6), longest]
    drawn = ["".join(random.choice(list(alphabet), n)) for n in lengths]
    return [*drawn, alphabet[0] * 9]


def matrix(kernel, x, z=None):
    return kernel(x, z).detach().numpy()


def assert_equal(kernel, features, x, z=None):
    expected = inner_products(features, x, x if z is None else z)
    np.testing.assert_allclose(matrix(kernel, x, z), expected, rtol=1e-12, atol=1e-12 * max(1.0, expected.max()))


def counted(name, **options):
    """Kernels with several settings each, and their features."""
    made = {
        "Spectrum": lambda: [(kernels.Spectrum(n, **options), partial(spectrum, k=n)) for n in (1, 3, 30)],
        "Mismatch": lambda: [
            (kernels.Mismatch(n, m, "abcde", **options), partial(mismatch, k=n, m=m, alphabet="abcde"))
            for n, m in ((1, 0), (2, 1), (3, 0), (3, 1), (3, 2), (4, 1))
        ],
        "Wildcard": lambda: [
            (kernels.Wildcard(n, m, decay, **options), partial(wildcard, k=n, m=m, decay=decay))
            for n, m, decay in ((1, 0, 1.0), (3, 1, 1.0), (4, 3, 0.3))
        ],
        "Gapped": lambda: [
            (kernels.Gapped(g, n, decay, **options), partial(gapped, g=g, k=n, decay=decay))
            for g, n in ((1, 1), (3, 3), (5, 2), (5, 4))
            for decay in (None, 0.4, 1.0)
        ],
        "GappyPair": lambda: [
            (kernels.GappyPair(n, m, **options), partial(spatial, t=2, k=n, d=m + 1)) for n, m in ((1, 0), (2, 3))
        ],
        "Double": lambda: [
            (kernels.Double(n, d, **options), partial(spatial, t=2, k=n, d=d)) for n, d in ((1, 5), (2, 3), (1, 1))
        ],
        "Triple": lambda: [
            (kernels.Triple(n, d, **options), partial(spatial, t=3, k=n, d=d)) for n, d in ((1, 3), (2, 2))
        ],
        "SimilarPairs": lambda: [
            (kernels.SimilarPairs(ALIKE, "abcde", d, **options), partial(similar, d=d)) for d in (1, 4)
        ],
        "Subsequence": lambda: [
            (kernels.Subsequence(n, decay, **options), partial(subsequence, length=n, decay=decay))
            for n, decay in ((1, 0.5), (2, 0.3), (3, 0.8), (3, 1.0))
        ],
    }
    return made[name]()


NAMES = ["Spectrum", "Mismatch", "Wildcard", "Gapped", "GappyPair", "Double", "Triple", "SimilarPairs", "Subsequence"]
POSITIONAL = ["Spectrum", "Gapped", "GappyPair", "Double", "Triple", "SimilarPairs"]

WORDS = ["gattaca", "tagaca", "cat", "", "a", "ttttaggg", "acgtacgtca", "xat"]

MADE = {
    "Spectrum": (lambda **o: kernels.Spectrum(2, **o), lambda a: spectrum(a, 2)),
    "Mismatch": (lambda **o: kernels.Mismatch(3, 1, "acgt", **o), lambda a: mismatch(a, 3, 1, "acgt")),
    "Wildcard": (lambda **o: kernels.Wildcard(3, 2, 0.7, **o), lambda a: wildcard(a, 3, 2, 0.7)),
    "Gapped": (lambda **o: kernels.Gapped(4, 2, **o), lambda a: gapped(a, 4, 2)),
    "Gapped decay": (lambda **o: kernels.Gapped(4, 2, 0.7, **o), lambda a: gapped(a, 4, 2, 0.7)),
    "GappyPair": (lambda **o: kernels.GappyPair(1, 3, **o), lambda a: spatial(a, 2, 1, 4)),
    "Double": (lambda **o: kernels.Double(1, 5, **o), lambda a: spatial(a, 2, 1, 5)),
    "Triple": (lambda **o: kernels.Triple(1, 3, **o), lambda a: spatial(a, 3, 1, 3)),
    "SimilarPairs": (
        lambda **o: kernels.SimilarPairs(ALIKE[:4, :4], "acgt", 3, **o),
        lambda a: similar(a, 3, "acgt", ALIKE[:4, :4]),
    ),
    "Subsequence": (lambda **o: kernels.Subsequence(3, 0.6, **o), lambda a: subsequence(a, 3, 0.6)),
}

CASES: dict[str, Case] = {
    **{
        name: Case(
            lambda make=make: make(variance=1.3),
            lambda x, z, features=features: 1.3 * normalised(features, x, z),
            x=WORDS,
            z=WORDS[1:5],
        )
        for name, (make, features) in MADE.items()
    },
    "Double distance": Case(
        lambda: kernels.Double(1, 5, lengthscale=0.6),
        lambda x, z: np.exp((normalised(MADE["Double"][1], x, z) - 1) / 0.36),
        x=WORDS,
        z=WORDS[1:5],
    ),
    "Spectrum plain": Case(
        lambda: kernels.Spectrum(2, variance=1.3, normalise=False),
        lambda x, z: 1.3 * inner_products(MADE["Spectrum"][1], x, z),
        x=WORDS,
        z=WORDS[1:5],
    ),
}
