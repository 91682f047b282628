"""Pictures of results: data in, matplotlib `Figure` out.

Figures are built on `matplotlib.figure.Figure` and the Agg canvas, never on pyplot: nothing is global, nothing needs a
display, and several threads may draw at once.  Whoever wants a window or a notebook can show the figure returned.

`learning_curves`, `partition_picture` and `plane_picture` take raw arrays; `chart` and `panels` draw the plain data of
`spaql.viz.charts`.
"""

from spaql.viz.figures.curves import learning_curves
from spaql.viz.figures.looks import Curve
from spaql.viz.figures.pictures import partition_picture
from spaql.viz.figures.planes import plane_picture
from spaql.viz.figures.saving import save, writers
from spaql.viz.figures.sheets import chart, panels

__all__ = ["Curve", "chart", "learning_curves", "panels", "partition_picture", "plane_picture", "save", "writers"]
