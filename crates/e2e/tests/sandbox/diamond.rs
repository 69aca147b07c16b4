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

/// Rows of tasks, each three times as wide as the one before it until the middle, and back again to one. Each task waits for those
/// of the row before it that lie above it.
struct Diamond {
    /// By key, what each waits for.
    tasks: Vec<(String, Vec<String>)>,
}

impl Diamond {
    fn new(count: usize) -> Self {
        let mut above = vec![1];
        while above.iter().sum::<usize>() * 2 + above[above.len() - 1] * 6 < count {
            above.push(above[above.len() - 1] * 3);
        }
        let middle = count - above.iter().sum::<usize>() * 2;
        let rows: Vec<usize> =
            above.iter().copied().chain([middle]).chain(above.iter().rev().copied()).collect();
        let mut tasks = Vec::new();
        for (row, wide) in rows.iter().enumerate() {
            let before = if row == 0 { 0 } else { rows[row - 1] };
            for column in 0..*wide {
                let above =
                    (0..before).filter(|one| one * wide / before == column || column * before / wide == *one);
                let above = above.map(|one| format!("{}-{one}", row - 1)).collect();
                tasks.push((format!("{row}-{column}"), above));
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
        assert_eq!(story.live_most, LIMIT, "as many at once as may be, and no more");
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
    for count in [3, 8, 10, 49, 200] {
        let diamond = Diamond::new(count);
        assert_eq!(diamond.tasks.len(), count);
        let waits: Vec<_> = diamond.tasks.iter().filter(|(_, before)| before.is_empty()).collect();
        assert_eq!(waits.len(), 1, "one is first of {count}");
        let waited_for: BTreeSet<_> = diamond.tasks.iter().flat_map(|(_, before)| before).collect();
        let last: Vec<_> = diamond.tasks.iter().filter(|(key, _)| !waited_for.contains(key)).collect();
        assert_eq!(last.len(), 1, "one is last of {count}: {last:?}");
    }
}
