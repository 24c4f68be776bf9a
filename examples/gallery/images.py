"""Images, by a network with processes behind it.

A deep kernel learns features of images and puts Gaussian processes on them. The images with the smallest
probability of their class are the ones worth a second look.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from stratagp import DKLClassifier

X, y = load_digits(return_X_y=True)
images = X.reshape(-1, 8, 8) / 16
dkl = DKLClassifier([64, 16], pretrain_epochs=20, max_epochs=10, random_state=0).fit(X[:800] / 16, y[:800])
probability = dkl.predict_proba(X[800:1300] / 16)
print(f"right: {np.mean(probability.argmax(1) == y[800:1300]):.0%} of 500 new digits")

doubtful = probability.max(1).argsort()[:5]
figure, panels = plt.subplots(1, 5, figsize=(8, 2.2), layout="constrained")
for panel, i in zip(panels, doubtful, strict=True):
    panel.imshow(images[800 + i], cmap="Greys")
    panel.set(title=f"{probability[i].argmax()}? {probability[i].max():.0%}", xticks=[], yticks=[])
plt.show()
