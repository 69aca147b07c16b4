//! The monitor: figures over time, what is unusual in them, and who has seen it.

use std::time::Duration;

use omoi_server::orchestrator::{Monitor, Node};
use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox},
    on_both,
    work::text,
};

const STEP: Duration = Duration::from_secs(30);

fn monitor(app: &App) -> Monitor {
    let node = Node::open(&app.config.data_dir).unwrap();
    Monitor::new(app.store().clone(), app.clock.clone(), node, app.config.monitor.clone())
}

impl App {
    async fn series(&self, range: &str) -> Value {
        self.get(&format!("/api/v1/monitor/metrics?range={range}")).await.expect(200)
    }

    async fn dashboard(&self) -> Value {
        self.get("/api/v1/monitor/dashboard").await.expect(200)
    }

    async fn anomalies(&self, open: bool) -> Vec<Value> {
        let found = self.get(&format!("/api/v1/monitor/anomalies?open={open}")).await.expect(200);
        found["items"].as_array().unwrap().clone()
    }

    /// A sandbox that works on a task for this long.
    async fn works(&self, task: &str, seconds: u64) -> Sandbox {
        let sandbox = self.attach(json!({ "task_id": task })).await;
        self.event(&sandbox, "agent.started", json!({})).await.expect(200);
        self.advance(Duration::from_secs(seconds)).await;
        sandbox
    }
}

fn total(series: &Value, metric: &str) -> f64 {
    series["points"].as_array().unwrap().iter().filter_map(|point| point[metric].as_f64()).sum()
}

on_both! {
    async fn figures_tell_of_tasks_in_sandboxes(app: App) {
        let monitor = monitor(&app);
        monitor.tick().await.unwrap();
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        app.task(&project, json!({})).await;
        app.advance(Duration::from_secs(5)).await;
        let done = app.works(&task, 10).await;
        app.event(&done, "agent.heartbeat", json!({})).await.expect(200);
        app.event(&done, "agent.completed", json!({ "success": true })).await.expect(200);
        app.advance(Duration::from_secs(15)).await;
        monitor.tick().await.unwrap();
        monitor.tick().await.unwrap();
        let series = app.series("1h").await;
        assert_eq!((&series["step_seconds"], series["points"].as_array().unwrap().len()), (&json!(30), 2), "once for each stretch");
        let last = &series["points"][1];
        assert_eq!((&last["completions"], &last["failures"], &last["queue_depth"]), (&json!(1.0), &json!(0.0), &json!(1.0)));
        assert_eq!((&last["queue_wait_seconds"], &last["task_duration_seconds"]), (&json!(5.0), &json!(10.0)));
        assert!(last["events_per_second"].as_f64().unwrap() > 0.1, "{last}");

        let working = app.works(&app.task(&project, json!({})).await, 0).await;
        app.event(&working, "agent.heartbeat", json!({})).await.expect(200);
        app.advance(STEP).await;
        monitor.tick().await.unwrap();
        let dashboard = app.dashboard().await;
        let counts = ["total_tasks_pending", "total_tasks_running", "total_tasks_completed", "total_tasks_failed", "active_agents", "stale_agents", "active_locks"];
        assert_eq!(counts.map(|name| dashboard[name].as_u64().unwrap()), [1, 1, 1, 0, 1, 0, 1]);
        assert_eq!((&dashboard["now"]["live_sandboxes"], &dashboard["now"]["heartbeat_age_seconds"]), (&json!(1.0), &json!(30.0)));
        let baseline = &dashboard["baselines"][0];
        assert_eq!((&baseline["agent_kind"], &baseline["samples"], &baseline["latency_ms"]), (&json!("external"), &json!(1), &json!(10000.0)));
        let metrics = app.get("/metrics").await.expect(200);
        for name in ["omoi_monitor_queue_depth", "omoi_monitor_heartbeat_age_seconds"] {
            assert!(metrics.as_str().unwrap().contains(name), "{name}");
        }
        app.get("/api/v1/monitor/metrics?range=1y").await.refused(422, "invalid_query");
        app.call(reqwest::Method::GET, "/api/v1/monitor/dashboard", &working.token, None).await.refused(403, "operator_needed");
    }

    async fn a_figure_far_from_what_it_was_is_told_once_and_acknowledged_by_people(app: App) {
        let monitor = monitor(&app);
        let project = app.project("parser").await;
        app.task(&project, json!({})).await;
        for _ in 0..24 {
            assert_eq!(monitor.tick().await.unwrap().anomalies, 0);
            app.advance(STEP).await;
        }
        let tasks: Vec<Value> = (0..20).map(|n| json!({ "key": format!("k{n}"), "title": format!("{n}") })).collect();
        app.post("/api/v1/tasks/batch", json!({ "project_id": project, "tasks": tasks })).await.expect(201);
        assert_eq!(monitor.tick().await.unwrap().anomalies, 1);
        app.advance(STEP).await;
        assert_eq!(monitor.tick().await.unwrap().anomalies, 0, "it stays where it is");
        let found = app.anomalies(true).await;
        let anomaly = &found[0];
        assert_eq!((found.len(), &anomaly["metric"], &anomaly["anomaly_type"], &anomaly["severity"]),
            (1, &json!("queue_depth"), &json!("spike"), &json!("warning")));
        assert_eq!((&anomaly["value"], &anomaly["baseline"]), (&json!(21.0), &json!(1.0)));
        assert_eq!(app.told_of("monitor.anomaly.detected").await.len(), 1);
        let dashboard = app.dashboard().await;
        assert_eq!((&dashboard["critical_alerts"], &dashboard["recent_anomalies"][0]["id"]), (&json!(0), &anomaly["id"]), "a queue that grows is no emergency");

        let path = format!("/api/v1/monitor/anomalies/{}/acknowledge", text(&anomaly["id"]));
        let seen = app.post(&path, json!({})).await.expect(200);
        assert_eq!(app.post(&path, json!({})).await.expect(200), seen, "twice is once");
        assert!(seen["acknowledged_by"].is_string() && seen["acknowledged_at"].is_string(), "{seen}");
        assert_eq!((app.anomalies(true).await.len(), app.anomalies(false).await.len()), (0, 1));
        let audit = app.get("/api/v1/audit?action=anomaly.acknowledge").await.expect(200);
        assert_eq!(audit["items"][0]["entity_id"], anomaly["id"]);
        app.post("/api/v1/monitor/anomalies/anm-none/acknowledge", json!({})).await.refused(404, "anomaly_not_found");
    }

    async fn the_first_tasks_of_a_server_are_nothing_unusual(app: App) {
        let monitor = monitor(&app);
        // Idle for an hour, so that every figure is steady at nothing.
        for _ in 0..120 {
            app.clock.advance(jiff::SignedDuration::from_secs(30));
            monitor.tick().await.unwrap();
        }
        let project = app.project("parser").await;
        for round in 0..3 {
            let mut working = Vec::new();
            for _ in 0..4 {
                let task = app.task(&project, json!({})).await;
                working.push(app.works(&task, 3).await);
            }
            app.task(&project, json!({})).await;
            app.advance(STEP).await;
            monitor.tick().await.unwrap();
            for (n, sandbox) in working.iter().enumerate() {
                app.event(sandbox, "agent.heartbeat", json!({ "cpu_seconds": 5 * n, "memory_bytes": 3e8 as u64 })).await.expect(200);
                app.event(sandbox, "agent.completed", json!({ "success": n + round > 0, "cost_usd": 0.4 })).await.expect(200);
            }
            app.advance(STEP).await;
            monitor.tick().await.unwrap();
        }
        assert_eq!(app.anomalies(true).await, Vec::<Value>::new());
    }

    async fn an_agent_far_from_what_is_usual_three_times_in_a_row_is_an_anomaly(app: App) {
        let monitor = monitor(&app);
        monitor.tick().await.unwrap();
        let project = app.project("parser").await;
        for _ in 0..12 {
            let done = app.works(&app.task(&project, json!({})).await, 20).await;
            app.event(&done, "agent.completed", json!({ "success": true })).await.expect(200);
        }
        let task = app.task(&project, json!({ "priority": "CRITICAL", "max_retries": 5 })).await;
        for _ in 0..5 {
            app.task(&project, json!({ "dependencies": [task] })).await;
        }
        for _ in 0..2 {
            let failed = app.works(&task, 20).await;
            app.event(&failed, "agent.failed", json!({ "error": "no", "failure_kind": "crashed" })).await.expect(200);
            app.advance(Duration::from_secs(120)).await;
        }
        let slow = app.works(&task, 0).await;
        let mut found = Vec::new();
        for n in 0..8u32 {
            for _ in 0..2 {
                app.event(&slow, "agent.heartbeat", json!({ "cpu_seconds": 60 * (n + 1), "memory_bytes": 5e8 as u64 })).await.expect(200);
                app.advance(Duration::from_secs(20)).await;
            }
            monitor.tick().await.unwrap();
            found.push(app.anomalies(true).await.iter().filter(|one| one["metric"] == "agent_score").count());
        }
        assert_eq!((found[0], found[1], found[7]), (0, 0, 1), "{found:?}");
        let anomalies = app.anomalies(true).await;
        let anomaly = anomalies.iter().find(|one| one["metric"] == "agent_score").unwrap();
        assert_eq!(anomaly["sandbox_id"], slow.id.as_str());
        assert!(anomaly["value"].as_f64().unwrap() >= 0.8, "{anomaly}");
        assert_eq!(anomaly["severity"], "critical", "its task fails, and five others wait for it: {anomaly}");
        assert!(text(&anomaly["subject"]).starts_with("external "), "{anomaly}");
        let baseline = &app.dashboard().await["baselines"][0];
        assert_eq!(baseline["samples"], 14);
        let metrics = app.get("/metrics").await.expect(200);
        assert!(metrics.as_str().unwrap().contains("omoi_agent_anomaly_score"));
    }

    async fn a_day_is_kept_as_it_was_a_week_in_larger_steps_and_no_more(app: App) {
        let step = Duration::from_secs(300);
        let store = app.store();
        store.monitor_measure(step).await.unwrap();
        let done = app.works(&app.task(&app.project("parser").await, json!({})).await, 10).await;
        app.event(&done, "agent.completed", json!({ "success": true })).await.expect(200);
        for _ in 0..(26 * 12) {
            app.clock.advance(jiff::SignedDuration::from_secs(300));
            assert!(store.monitor_measure(step).await.unwrap().is_some());
            assert!(store.monitor_measure(step).await.unwrap().is_none(), "once");
        }
        let (day, week) = (app.series("24h").await, app.series("7d").await);
        assert_eq!((total(&day, "completions"), total(&week, "completions")), (0.0, 1.0), "what became coarser is still there");
        assert!((287..=289).contains(&day["points"].as_array().unwrap().len()), "{}", day["points"].as_array().unwrap().len());
        assert!((51..=54).contains(&week["points"].as_array().unwrap().len()));
        let kept = store.monitor_history(100_000).await.unwrap().len();
        assert!(kept <= 289, "{kept}");
        app.clock.advance(jiff::SignedDuration::from_hours(8 * 24));
        store.monitor_measure(step).await.unwrap();
        assert_eq!(app.series("7d").await["points"].as_array().unwrap().len(), 1);
    }
}
