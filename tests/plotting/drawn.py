"""What a picture shows, as numbers."""

import numpy as np


def band(collection):
    """The abscissae, lower and upper ends of what ``fill_between`` has drawn: along the one and back the other."""
    (path,) = collection.get_paths()
    corners = path.vertices
    n = (len(corners) - 3) // 2
    return corners[1 : n + 1, 0], corners[1 : n + 1, 1], corners[n + 2 : 2 * n + 2, 1][::-1]


def lines(ax):
    """Abscissae and ordinates of all lines."""
    return [(np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata())) for line in ax.get_lines()]


def texts(ax):
    """Entries of the legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def widths(ax):
    """Lengths of horizontal bars, from top to bottom, with the names beside them."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    return names, [[bar.get_width() for bar in container] for container in ax.containers]
