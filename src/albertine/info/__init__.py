"""The paper's questions: what a model is made of (`anatomy`), and its tables and figures."""
