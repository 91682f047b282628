"""Charts, figures and pages: what can be seen of results and policies.

Charts are plain data (`charts.Chart`, `Series`, `Level`, `Mosaic`); `figures.chart` and `figures.panels` draw them with
matplotlib, `figures.save` and `figures.writers` write them, and `html.render_page` puts them on a page that needs no
network.  `policy_plot.PolicyView`, `inspector.render_inspector` and `recording.record` show a policy; they take data
or anything that predicts, and know no agent class.  Colours and labels of algorithms come with the data.

May import `explain`, `export`, `gym`, `problems`, `partition` and the leaf modules; `agents`, `runner`, `studies` and
`cli` import it.
"""
