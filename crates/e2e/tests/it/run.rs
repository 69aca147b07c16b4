//! A command from its start to the task's end.

use omoi_protocol::{TaskStatus, event::Payload};

use crate::{
    house::{House, assert_dense, types, written},
    worker::{Worker, launch},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attached_command_is_told_from_its_first_event_to_the_completed_task() {
    let house = House::open().await;
    let task = house.task().await;
    let script = "echo out; echo err >&2; pwd; echo $SANDBOX_ID";
    let worker = Worker::attach(&house, &["--task", task.as_str()], &["sh", "-c", script]);
    assert_eq!(worker.code().await, 0);

    let sandbox = house.client.task_get(&task).await.unwrap().sandbox_id.unwrap();
    let events = house.events(&sandbox).await;
    let told: Vec<_> = types(&events).into_iter().filter(|one| *one != "command.output").collect();
    assert_eq!(
        told,
        [
            "sandbox.booting",
            "agent.started",
            "command.started",
            "command.completed",
            "agent.completed",
            "agent.shutdown",
        ]
    );
    assert_dense(&events);
    let here = house.dir.path().canonicalize().unwrap();
    assert_eq!(written(&events, "stdout"), format!("out\n{}\n{sandbox}\n", here.display()));
    assert_eq!(written(&events, "stderr"), "err\n");
    assert_eq!(house.task_status(&task).await, TaskStatus::Completed);
    assert!(!house.dir.path().join(".omoi/spool").join(sandbox.as_str()).exists(), "nothing is left behind");
}
