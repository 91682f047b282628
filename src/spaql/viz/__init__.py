"""Charts, figures and pages: what can be seen of results and policies.

Takes data or anything that predicts, and knows no agent class; colours and labels of algorithms come with the data.
May import `explain`, `export`, `gym`, `problems`, `partition` and the leaf modules.
"""
