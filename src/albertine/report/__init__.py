"""Reports of runs, and of comparisons of runs, as self-contained HTML pages.

`page` and `charts` are general, and other packages use them; the modules `*_page` assemble reports.
"""
