"""An Airflow DAG that labels a day's reviews once the file of that day is there.

A task that was killed and is started again computes only the rows that have no label: the queue is labels-DATE.csv.db,
beside the output. A row without an answer fails the task (check=True), and a retry asks for it again (retry_failed=True).
"""
import datetime

from airflow.decorators import dag, task

FOLDER = "/srv/reviews"
MODEL = "/srv/models/MODEL.gguf"


@task(retries=2)
def label(date, folder=FOLDER, model=MODEL):
    import sheaf

    outcome = sheaf.annotate(
        f"{folder}/reviews-{date}.csv",
        output=f"{folder}/labels-{date}.csv",
        model=model,
        prompt="Is this review positive, negative, neutral or mixed? {{ review }}",
        choice=["positive", "negative", "neutral", "mixed"],
        retry_failed=True,
        check=True,
        progress=lambda progress: print(f"{progress.done} of {progress.total} reviews, {progress.tokens} tokens"),
    )
    return {"rows": outcome.done, "tokens": outcome.tokens}


@dag(schedule="@daily", start_date=datetime.datetime(2026, 1, 1), catchup=False)
def reviews():
    label("{{ ds }}")


reviews()
