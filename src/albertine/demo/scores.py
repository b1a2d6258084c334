"""The scores of a demo's fine-tuned models and of the baselines that do not read the text."""

from typing import Any

from albertine.demo.workspace import DemoWorkspace


def task_score(result: dict[str, Any]) -> float:
    """Return the score of a fine-tuning: exact answers, accuracy, or else the first metric."""
    metrics = result["metrics"]
    return float(metrics.get("exact", metrics.get("accuracy", result["primary_metric"])))


def baseline_scores(workspace: DemoWorkspace, name: str) -> dict[str, float]:
    """Return the scores of a task's baselines by their names."""
    if name == "cloze":
        most_common_accuracy = workspace.make_cloze_questions()["dev"]["most_common_accuracy"]
        return {"the most common word": most_common_accuracy, "guessing": 0.25}
    task_summary = next(
        summary for summary in workspace.make_world()["tasks"] if summary["name"].lower() == name
    )
    return {"bag of words": task_summary["bag_of_words_score"]} | (
        {"guessing": task_summary["guessing_score"]} if task_summary["guessing_score"] else {}
    )
