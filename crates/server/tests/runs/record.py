#!/usr/bin/env python3
"""Records the runs of this directory again: each NAME.yaml is played by the scripted model in a real sandbox, and what
happens there becomes NAME.jsonl.

    record.py OMOI [NAME…]        OMOI: the program; without names, all runs

Needs python3-yaml. Runs that wait take their time: all of them together, about a quarter of an hour.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
AT_ONCE = 6
RUN_SECONDS_MAX = 1200
FILE_BYTES_MAX = 200_000
# What an operator's first start shows.
TOKEN = re.compile(r"omoi_op_[A-Za-z0-9_-]+")
# Beside the steps, what of a run is the scripted model's.
SCENARIO = ("steps", "price", "delay", "pace")


class Server:
    def __init__(self, omoi, place, runs):
        scenarios = place / "scenarios"
        scenarios.mkdir()
        for name, run in runs.items():
            for part, steps in {name: run, **run.get("helpers", {})}.items():
                scenario = {key: steps[key] for key in SCENARIO if key in steps}
                (scenarios / f"{part}.yaml").write_text(json.dumps(scenario))
        env = {**os.environ, "OMOI_MODEL_SCENARIOS": str(scenarios)}
        self.log = place / "serve.log"
        command = [omoi, "serve", "--data-dir", str(place / "data"), "--listen", "127.0.0.1:0"]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        until = time.monotonic() + 30
        while True:
            said = self.log.read_text()
            token, url = TOKEN.search(said), re.search(r"listens on (http://\S+)", said)
            if token and url:
                break
            if time.monotonic() > until or self.process.poll() is not None:
                sys.exit(f"the server did not start:\n{said}")
            time.sleep(0.1)
        self.url, self.token = url[1] + "/api/v1", token[0]

    def ask(self, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"{path}: {error.code} {error.read().decode(errors='replace')}")

    def events(self, sandbox, after=0):
        while True:
            page = self.ask(f"/sandboxes/{sandbox}/events?after={after}&limit=500")["events"]
            yield from sorted(page, key=lambda event: event["seq"])
            if not page:
                return
            after = max(event["seq"] for event in page)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def repository(place):
    root = place / "shop"
    shutil.copytree(HERE / "repository", root)
    git = ["git", "-C", str(root), "-c", "user.name=Shop", "-c", "user.email=shop@example.com"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Open the shop"], check=True)
    return root


def record(server, project, name, run):
    """One run: its events, once everything that is to be said has been said and the sandbox has ended."""
    config = {
        "model": f"scripted/{name}",
        "autonomous": False,
        "heartbeat_seconds": run.get("heartbeat_seconds", 15),
        "idle_seconds": run.get("stay_seconds", 0),
        "mode": run.get("mode", "implementation"),
    }
    if budget := run.get("budget_usd"):
        config["max_total_cost_usd"] = budget
    title, _, rest = run["task"].partition("\n")
    task = {
        "project_id": project,
        "title": title,
        "description": rest.strip() or title,
        "owned_files": run.get("owned_files", []),
        "max_retries": 0,
        "execution_config": config,
    }
    task = server.ask("/tasks", task)
    sandbox = server.ask(f"/projects/{project}/sandboxes", {"task_id": task["id"]})["id"]
    said, events, until = list(run.get("say", [])), [], time.monotonic() + RUN_SECONDS_MAX
    while time.monotonic() < until:
        events += server.events(sandbox, events[-1]["seq"] if events else 0)
        text = json.dumps(events)
        if said and said[0]["when"] in text:
            message = said.pop(0)
            body = {"content": message["text"], "message_type": message.get("type", "user_message")}
            server.ask(f"/sandboxes/{sandbox}/messages", body)
        ended = any(event["event_type"] == "sandbox.preserved" for event in events)
        if ended or (run.get("cut_seconds") and began(events) > run["cut_seconds"]):
            break
        time.sleep(0.25)
    else:
        sys.exit(f"{name}: not over after {RUN_SECONDS_MAX} s")
    if not ended:
        server.ask(f"/sandboxes/{sandbox}/terminate", {"reason": "recorded"})
    if said:
        sys.exit(f"{name}: ended before {said[0]['when']!r} was seen")
    return events


def began(events):
    at = lambda event: time.mktime(time.strptime(event["created_at"][:19], "%Y-%m-%dT%H:%M:%S"))
    return at(events[-1]) - at(events[0]) if events else 0


def write(name, run, events):
    head = {"run": name, "owned_files": run.get("owned_files", []), "budget_usd": run.get("budget_usd")}
    lines = [json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in [head, *events]]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > FILE_BYTES_MAX:
        sys.exit(f"{name}: {len(text.encode())} bytes are more than {FILE_BYTES_MAX}")
    (HERE / f"{name}.jsonl").write_text(text)
    print(f"{name}: {len(events)} events, {len(text.encode())} bytes", flush=True)


def main():
    omoi, *names = sys.argv[1:] or sys.exit(__doc__)
    names = names or sorted(path.stem for path in HERE.glob("*.yaml"))
    runs = {name: yaml.safe_load((HERE / f"{name}.yaml").read_text()) for name in names}
    with tempfile.TemporaryDirectory(prefix="omoi-record-") as place:
        place = pathlib.Path(place)
        server = Server(omoi, place, runs)
        try:
            root = repository(place)
            project = server.ask("/projects", {"name": "shop", "repository_url": str(root)})["id"]
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                made = {pool.submit(record, server, project, name, run): name for name, run in runs.items()}
                for done in concurrent.futures.as_completed(made):
                    write(made[done], runs[made[done]], done.result())
        finally:
            server.stop()


if __name__ == "__main__":
    main()
