//! An agent that works in iterations: each begins anew and knows what it wrote down, work that is called complete is looked
//! at, and a limit that is reached before that is a failure.

use serde_json::{Value, json};

use crate::{
    agent::{assert_gapless, of},
    git::Mirror,
    omoi::Omoi,
};

/// Does the first half, notes that, and ends; whoever finds the notes does the rest.
const HALVES: &str = r#"
about: two halves in two iterations
steps:
  - name: look
    say: I look where I am.
    call: { tool: Bash, input: { command: "test -e ITERATION_NOTES.md && echo again || echo first" } }
    when:
      - { result_contains: again, next: rest }
    next: half
  - name: half
    say: The first half.
    call: { tool: Bash, input: { command: "echo one > one.txt; echo 'one.txt is there, two.txt is not' > ITERATION_NOTES.md" } }
    next: pause
  - name: pause
    say: More is left to do.
    end: true
  - name: rest
    say: The second half.
    call: { tool: Write, input: { file_path: two.txt, content: "two\n" } }
    next: done
  - name: done
    say: "Both halves are there.\n\nTASK_COMPLETE"
    end: true
"#;

/// Says that it is done while a filter of its own making keeps Git from committing; then takes that away.
const SPOILT: &str = r#"
about: cannot be committed at first
steps:
  - name: look
    say: I look where I am.
    call: { tool: Bash, input: { command: "test -e .git/info/attributes && echo again || echo first" } }
    when:
      - { result_contains: again, next: mend }
    next: spoil
  - name: spoil
    say: I make a file that cannot be added.
    call: { tool: Bash, input: { command: "git config filter.bad.clean false; git config filter.bad.required true; mkdir -p .git/info; echo '*.dat filter=bad' > .git/info/attributes; echo x > x.dat" } }
    next: done
  - name: mend
    say: I take the filter away.
    call: { tool: Bash, input: { command: "rm .git/info/attributes" } }
    next: done
  - name: done
    say: TASK_COMPLETE
    end: true
"#;

/// Does something and never says that it is done.
const NEVER: &str = r#"
about: is never done
price: { input: 3, output: 15 }
steps:
  - name: work
    say: A little more.
    call: { tool: Bash, input: { command: "date +%N >> more.txt; sleep SECONDS" } }
  - name: pause
    say: It is not done yet.
    end: true
"#;

/// Waits until it is told something; whoever finds that it was told is done.
const HEARS: &str = r#"
about: waits for a word
steps:
  - name: look
    say: I look.
    call: { tool: Bash, input: { command: "test -e heard.txt && echo again || echo first" } }
    when:
      - { result_contains: again, next: done }
    next: wait
  - name: wait
    say: I wait.
    call: { tool: Bash, input: { command: "touch begun; sleep 60" } }
    repeat: 100
    when:
      - { message_contains: "use tabs", next: heard }
    next: wait
  - name: heard
    say: I heard it.
    call: { tool: Write, input: { file_path: heard.txt, content: "{message}" } }
    next: pause
  - name: pause
    say: That is for the next iteration.
    end: true
  - name: done
    say: TASK_COMPLETE
    end: true
"#;

fn iterating(more: Value) -> Value {
    let mut config = json!({ "continuous": true });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iteration_begins_anew_and_knows_what_the_one_before_wrote_down() {
    let omoi = Omoi::with_scenarios(&[("halves", HALVES)]).await;
    let project = omoi.small_project().await;
    let (task, sandbox) = omoi.agent(&project, "halves", iterating(json!({}))).await;
    omoi.gone(&sandbox).await;
    let events = omoi.stored(&sandbox).await;
    assert_gapless(&events);

    let told: Vec<&str> =
        of(&events, "agent.user_message").iter().map(|event| event["content"].as_str().unwrap()).collect();
    let [first, second] = told[..] else { panic!("{told:#?}") };
    assert!(first.contains("TASK_COMPLETE") && !first.contains("iteration 2"), "{first}");
    for part in ["iteration 2 of 10", "one.txt is there, two.txt is not", "More is left to do."] {
        assert!(second.contains(part), "{part} is not in {second}");
    }
    // The scenario begins at its first step again, as it does for whoever has said nothing yet; turns are counted on.
    let turns: Vec<u64> =
        of(&events, "agent.assistant_message").iter().map(|event| event["turn"].as_u64().unwrap()).collect();
    assert_eq!(turns, [1, 2, 3, 4, 5, 6]);

    assert_eq!(of(&events, "continuous.started")[0]["completion_signal"], "TASK_COMPLETE");
    assert_eq!(of(&events, "iteration.completed").len(), 2);
    assert_eq!(of(&events, "iteration.completion_signal")[0]["iteration_num"], 2);
    let validation = of(&events, "iteration.validation")[0];
    assert_eq!(
        (&validation["passed"], &validation["git_status"]["is_clean"], &validation["git_status"]["has_pr"]),
        (&json!(true), &json!(true), &json!(null))
    );
    let end = of(&events, "continuous.completed")[0];
    assert_eq!(
        (
            &end["stop_reason"],
            &end["validation_passed"],
            &end["iteration_num"],
            &end["successful_iterations"]
        ),
        (&json!("validation_passed"), &json!(true), &json!(2), &json!(2))
    );

    let task = omoi.task(&task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let result = &task["result"];
    assert_eq!((&result["turns"], &result["commit"]), (&json!(6), &end["commit"]), "{result}");
    let mirror = Mirror::of(&omoi.data(), &project);
    let branch = task["branch_name"].as_str().unwrap();
    assert_eq!(mirror.git(&["diff", "--name-only", "main", branch]), "one.txt\ntwo.txt", "notes are no work");
    let log = omoi.client.sandbox_transcript(&sandbox).await.unwrap();
    assert!(!log.transcript_b64.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_does_not_pass_is_told_why_and_mended() {
    let omoi = Omoi::with_scenarios(&[("spoilt", SPOILT)]).await;
    let project = omoi.small_project().await;
    let (task, sandbox) = omoi.agent(&project, "spoilt", iterating(json!({}))).await;
    omoi.gone(&sandbox).await;
    let events = omoi.stored(&sandbox).await;
    let verdicts: Vec<_> =
        of(&events, "iteration.validation").iter().map(|event| event["passed"].clone()).collect();
    assert_eq!(verdicts, [json!(false), json!(true)]);
    let second = of(&events, "agent.user_message")[1]["content"].as_str().unwrap();
    assert!(second.contains("cannot be committed") && second.contains("bad"), "{second}");
    let task = omoi.task(&task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let mirror = Mirror::of(&omoi.data(), &project);
    assert_eq!(mirror.file(task["branch_name"].as_str().unwrap(), "x.dat"), "x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_reached_before_the_work_has_passed_is_a_failure() {
    let (never, slow) = (NEVER.replace("SECONDS", "0"), NEVER.replace("SECONDS", "600"));
    let omoi = Omoi::with_scenarios(&[("never", &never), ("slow", &slow)]).await;
    let project = omoi.small_project().await;
    for (scenario, config, stop, words, iterations) in [
        ("never", json!({ "max_iterations": 2 }), "max_iterations_reached", "max_iterations", 2),
        // One turn is too few, in each of the iterations.
        ("never", json!({ "max_turns": 1 }), "consecutive_errors", "3 iterations in a row", 3),
        // These two end it in the middle of an iteration.
        ("never", json!({ "max_total_cost_usd": 0.001 }), "max_cost_reached", "max_total_cost_usd", 1),
        ("slow", json!({ "max_duration_seconds": 2 }), "max_duration_reached", "max_duration_seconds", 1),
    ] {
        let (task, sandbox) = omoi.agent(&project, scenario, iterating(config)).await;
        omoi.gone(&sandbox).await;
        let events = omoi.stored(&sandbox).await;
        let end = of(&events, "continuous.completed")[0];
        assert_eq!(
            (&end["stop_reason"], &end["validation_passed"], &end["iteration_num"]),
            (&json!(stop), &json!(false), &json!(iterations)),
            "{end}"
        );
        let task = omoi.task(&task).await;
        assert_eq!((&task["status"], &task["failure_kind"]), (&json!("failed"), &json!("limit")), "{task}");
        assert!(task["error_message"].as_str().unwrap().contains(words), "{task}");
        // What it made until then is on its branch all the same.
        let mirror = Mirror::of(&omoi.data(), &project);
        let lines = mirror.file(task["branch_name"].as_str().unwrap(), "more.txt");
        assert_eq!(lines.lines().count(), iterations);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_holds_an_iteration_and_what_was_said_is_known_in_the_next() {
    let omoi = Omoi::with_scenarios(&[("hears", HEARS)]).await;
    let project = omoi.small_project().await;
    let (task, sandbox) = omoi.agent(&project, "hears", iterating(json!({}))).await;
    omoi.until_file(&sandbox, "begun").await;
    omoi.say(&sandbox, "interrupt", "stop that").await;
    omoi.until_event(&sandbox, "agent.waiting").await;
    let message = omoi.say(&sandbox, "user_message", "use tabs").await;
    omoi.gone(&sandbox).await;
    assert_eq!(omoi.message_state(&sandbox, &message).await, "acknowledged");
    let events = omoi.stored(&sandbox).await;
    assert_eq!(of(&events, "agent.interrupted").len(), 1);
    assert_eq!(of(&events, "iteration.started").len(), 2, "the interrupt ended none");
    let second = of(&events, "agent.user_message")[1]["content"].as_str().unwrap();
    assert!(
        second.contains("# What you were told in earlier iterations") && second.contains("use tabs"),
        "{second}"
    );
    assert_eq!(omoi.task(&task).await["status"], "completed");
}
