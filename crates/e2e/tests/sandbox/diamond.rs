//! Many tasks that wait for each other, few sandboxes at a time, and a server that is killed on the way.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use omoi_protocol::live::LiveEvent;
use serde_json::{Value, json};

use crate::{
    dispatch::{QUICK, settings},
    git::Repository,
    omoi::{Omoi, data},
    traces::Traces,
};

const LIMIT: i64 = 8;
const KILLS: usize = 10;
/// What takes less than a minute here; `OMOI_DIAMOND_TASKS` has another number of them, 200 for one.
const TASKS: usize = 49;

/// Rows of tasks that grow from one to the middle and shrink to one again. Each waits for those of the row before it that lie
/// above it; what the number has beyond a square is in the middle.
struct Diamond {
    /// By key, what each waits for.
    tasks: Vec<(String, Vec<String>)>,
}

impl Diamond {
    fn new(count: usize) -> Self {
        let side = count.isqrt();
        let width = |row: usize| match row + 1 {
            middle if middle == side => side + count - side * side,
            row => row.min(2 * side - row),
        };
        let key = |row: usize, column: usize| format!("{row}-{column}");
        let mut tasks = Vec::new();
        for row in 0..2 * side - 1 {
            let wide = if row == 0 { 0 } else { width(row - 1) };
            for column in 0..width(row) {
                let before = (0..wide)
                    .filter(|one| one * width(row) / wide == column || column * wide / width(row) == *one);
                tasks.push((key(row, column), before.map(|before| key(row - 1, before)).collect()));
            }
        }
        Self { tasks }
    }

    fn batch(&self, project: &Value) -> Value {
        let tasks: Vec<Value> = self
            .tasks
            .iter()
            .map(|(key, before)| json!({ "key": key, "title": key, "depends_on": before, "max_retries": 10 }))
            .collect();
        json!({ "project_id": project, "tasks": tasks })
    }
}

/// What happened, in the order in which it was stored.
struct Story {
    sandboxes: BTreeSet<String>,
    live_most: i64,
}

impl Story {
    /// No task before its turn, none completed twice or begun again after that, and never more than the limit.
    fn read(told: &[LiveEvent], before: &BTreeMap<String, Vec<String>>) -> Self {
        let mut story = Self { sandboxes: BTreeSet::new(), live_most: 0 };
        let (mut live, mut done) = (0, BTreeSet::new());
        for event in told {
            let said = data(event);
            match event.event_type.as_str() {
                "TASK_ASSIGNED" => {
                    let task = said["task_id"].as_str().unwrap().to_owned();
                    assert!(
                        before[&task].iter().all(|one| done.contains(one)),
                        "{task} came before its turn"
                    );
                    assert!(!done.contains(&task), "{task} was done already");
                    story.sandboxes.insert(said["sandbox_id"].as_str().unwrap().to_owned());
                    live += 1;
                    story.live_most = story.live_most.max(live);
                }
                "SANDBOX_ENDED" => live -= 1,
                _ => assert!(done.insert(said["task_id"].as_str().unwrap().to_owned()), "completed twice"),
            }
        }
        assert!(story.live_most <= LIMIT, "{} at once", story.live_most);
        assert_eq!((live, done.len()), (0, before.len()));
        story
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diamond_of_tasks_keeps_order_and_limit_through_ten_kills_of_the_server() {
    #[expect(clippy::disallowed_methods, reason = "how much this test is to do")]
    let count = std::env::var("OMOI_DIAMOND_TASKS").map_or(TASKS, |count| count.parse().unwrap());
    let mut omoi = Omoi::with_scenarios(&[("quick", QUICK)]).await;
    let repository = Repository::small();
    let body = json!({
        "name": "diamond", "repository_url": repository.path(), "max_concurrent": 2 * LIMIT, "settings": settings("quick"),
    });
    let (status, project) = omoi.post("/api/v1/projects", &body).await;
    assert_eq!(status, 201, "{project}");
    let diamond = Diamond::new(count);
    assert_eq!(diamond.tasks.len(), count);
    let begun = Instant::now();
    let (status, made) = omoi.post("/api/v1/tasks/batch", &diamond.batch(&project["id"])).await;
    assert_eq!(status, 201, "{made}");
    let id = |key: &String| made["tasks"][key]["id"].as_str().unwrap().to_owned();
    let before: BTreeMap<String, Vec<String>> =
        diamond.tasks.iter().map(|(key, before)| (id(key), before.iter().map(id).collect())).collect();

    for kill in 1..=KILLS {
        let enough = kill * count / (KILLS + 1);
        omoi.until_all(&["TASK_COMPLETED"], |seen| seen.len() >= enough).await;
        omoi.kill().await;
        omoi.start_again().await;
    }
    let counted =
        |seen: &[LiveEvent], kind: &str| seen.iter().filter(|event| event.event_type == kind).count();
    let told = omoi
        .until_all(&["TASK_ASSIGNED", "TASK_COMPLETED", "SANDBOX_ENDED"], |seen| {
            counted(seen, "TASK_COMPLETED") == count
                && counted(seen, "SANDBOX_ENDED") == counted(seen, "TASK_ASSIGNED")
        })
        .await;
    let story = Story::read(&told, &before);
    let names: Vec<String> = story.sandboxes.into_iter().collect();
    for name in &names {
        omoi.gone(&name.parse().unwrap()).await;
    }
    Traces::assert_none(&omoi.data(), &names);
    println!(
        "{count} tasks in {:.1} s: {} sandboxes, at most {} at once, {KILLS} kills",
        begun.elapsed().as_secs_f64(),
        names.len(),
        story.live_most
    );
}

#[test]
fn every_task_of_a_diamond_lies_between_its_first_and_its_last() {
    for count in [4, 9, 10, 49, 200] {
        let diamond = Diamond::new(count);
        assert_eq!(diamond.tasks.len(), count);
        let waits: Vec<_> = diamond.tasks.iter().filter(|(_, before)| before.is_empty()).collect();
        assert_eq!(waits.len(), 1, "one is first of {count}");
        let waited_for: BTreeSet<_> = diamond.tasks.iter().flat_map(|(_, before)| before).collect();
        let last: Vec<_> = diamond.tasks.iter().filter(|(key, _)| !waited_for.contains(key)).collect();
        assert_eq!(last.len(), 1, "one is last of {count}: {last:?}");
    }
}
