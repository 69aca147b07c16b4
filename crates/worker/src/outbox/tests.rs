//! The outbox without a server: what is on disk, what is in memory, and what a restart makes of it.

use std::{fs, os::unix::fs::symlink, path::Path};

use omoi_protocol::{
    EventSource,
    event::{AgentCompleted, AgentError, AgentHeartbeat, AgentWaiting, Common, NewEvent, Payload},
};
use omoi_redact::Secrets;

use super::{Outbox, queue::Queue, spool::Error, spool::Spool};

fn event(text: &str) -> NewEvent {
    let waiting = AgentWaiting { message: Some(text.to_owned()), ..AgentWaiting::default() };
    NewEvent::new(&Payload::from(waiting), EventSource::Worker)
}

fn heartbeat() -> NewEvent {
    NewEvent::new(&Payload::from(AgentHeartbeat::default()), EventSource::Worker)
}

fn open(dir: &Path) -> Queue {
    let (spool, left) = Spool::open(dir).unwrap();
    Queue::new(Some(spool), left)
}

fn numbers(queue: &Queue) -> Vec<i64> {
    queue.batch(usize::MAX).iter().map(|event| event.worker_seq.unwrap()).collect()
}

#[test]
fn a_restart_goes_on_behind_what_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = open(dir.path());
    (1..=5).for_each(|n| queue.push(event(&n.to_string())));
    queue.acknowledge(3);
    drop(queue);
    let mut queue = open(dir.path());
    assert_eq!(numbers(&queue), [4, 5]);
    queue.push(event("6"));
    assert_eq!((numbers(&queue), queue.last()), (vec![4, 5, 6], 6));
    queue.acknowledge(6);
    drop(queue);
    let queue = open(dir.path());
    assert_eq!((queue.waiting(), queue.last()), (0, 6), "numbers are not given twice");
}

#[test]
fn a_file_that_breaks_off_anywhere_gives_its_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = open(dir.path());
    (1..=3).for_each(|n| queue.push(event(&n.to_string())));
    drop(queue);
    let path = dir.path().join("events.jsonl");
    let text = fs::read(&path).unwrap();
    for length in 0..=text.len() {
        fs::write(&path, &text[..length]).unwrap();
        let whole = text[..length].iter().filter(|byte| **byte == b'\n').count() as i64;
        let mut queue = open(dir.path());
        assert_eq!(numbers(&queue), (1..=whole).collect::<Vec<_>>());
        queue.push(event("next"));
        drop(queue);
        assert_eq!(numbers(&open(dir.path())), (1..=whole + 1).collect::<Vec<_>>(), "cut at {length}");
    }
}

#[test]
fn one_heartbeat_waits_and_everything_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = open(dir.path());
    for _ in 0..3 {
        queue.push(heartbeat());
        queue.push(event("word"));
    }
    assert_eq!((queue.waiting(), queue.last()), (4, 4));
    queue.acknowledge(1);
    queue.push(heartbeat());
    assert_eq!(numbers(&queue), [2, 3, 4, 5]);
}

#[test]
fn a_batch_has_bounds_and_at_least_one_event() {
    let mut queue = Queue::new(None, super::spool::Left::default());
    queue.push(event(&"x".repeat(2_000_000)));
    // The second is the note that there is no disk.
    (0..300).for_each(|_| queue.push(event("small")));
    assert_eq!(numbers(&queue), [1]);
    queue.acknowledge(1);
    assert_eq!(queue.batch(usize::MAX).len(), 200);
    assert_eq!(queue.batch(1).len(), 1);
    assert!(queue.batch(1)[0].event_data.get().contains("cannot be kept on disk"));
}

#[test]
fn what_somebody_else_adds_to_the_file_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = open(dir.path());
    queue.push(event("1"));
    let (upto, path) = (queue.last(), dir.path().join("events.jsonl"));
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"junk"))
        .unwrap();
    queue.push(event("2"));
    drop(queue);
    assert_eq!(numbers(&open(dir.path())), [upto, upto + 1]);
}

#[test]
fn numbers_follow_the_server_when_it_knows_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = open(dir.path());
    (1..=3).for_each(|n| queue.push(event(&n.to_string())));
    for first in [11, 2] {
        queue.renumber(first);
        assert_eq!(numbers(&queue), [first, first + 1, first + 2]);
    }
    drop(queue);
    let mut queue = open(dir.path());
    assert_eq!(numbers(&queue), [2, 3, 4]);
    queue.replace_first(event("in its place"));
    drop(queue);
    let queue = open(dir.path());
    assert_eq!(numbers(&queue), [2, 3, 4]);
    assert!(queue.batch(1)[0].event_data.get().contains("in its place"));
}

#[test]
fn of_a_full_sandbox_only_what_is_vital_waits_and_numbers_have_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = open(dir.path());
    (1..=3).for_each(|n| queue.push(event(&n.to_string())));
    queue.push(heartbeat());
    queue.acknowledge(1);
    let note = || {
        let error = AgentError { error: Some("full".to_owned()), ..AgentError::default() };
        NewEvent::new(&Payload::from(error), EventSource::Worker)
    };
    queue.thin(note());
    let types =
        |queue: &Queue| queue.batch(usize::MAX).into_iter().map(|event| event.event_type).collect::<Vec<_>>();
    assert_eq!(
        (numbers(&queue), types(&queue)),
        (vec![2, 3], vec!["agent.error".to_owned(), "agent.heartbeat".to_owned()])
    );
    queue.push(event("dropped"));
    queue.push(NewEvent::new(&Payload::from(AgentCompleted::default()), EventSource::Agent));
    queue.thin(note());
    assert_eq!(
        (numbers(&queue), types(&queue)[2].as_str()),
        (vec![2, 3, 4], "agent.completed"),
        "it is said once"
    );
    drop(queue);
    assert_eq!(numbers(&open(dir.path())), [2, 3, 4]);
}

#[test]
fn a_long_spool_is_emptied_once_all_of_it_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = open(dir.path());
    (0..3).for_each(|_| queue.push(event(&"x".repeat(500_000))));
    let length = || fs::metadata(dir.path().join("events.jsonl")).unwrap().len();
    queue.acknowledge(2);
    assert!(length() > 1_500_000);
    queue.acknowledge(3);
    assert_eq!(length(), 0);
    queue.push(event("4"));
    drop(queue);
    assert_eq!(numbers(&open(dir.path())), [4]);
}

#[test]
fn a_spool_that_is_no_ordinary_file_or_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _held = open(dir.path());
    assert!(matches!(Spool::open(dir.path()), Err(Error::InUse { .. })));
    let trap = tempfile::tempdir().unwrap();
    symlink("/etc/passwd", trap.path().join("events.jsonl")).unwrap();
    assert!(matches!(Spool::open(trap.path()), Err(Error::Unusable { .. })));
    let pipe = tempfile::tempdir().unwrap();
    let path = pipe.path().join("events.jsonl");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    assert!(matches!(Spool::open(pipe.path()), Err(Error::Unusable { .. })));
}

#[test]
fn no_secret_is_written_to_the_disk_or_sent() {
    let dir = tempfile::tempdir().unwrap();
    let token = "omoi_sbx_Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789-_abcde";
    let outbox = Outbox::open(dir.path(), Common::default(), Secrets::new([token])).unwrap();
    let waiting = AgentWaiting { message: Some(format!("\"{token}\"\n")), ..AgentWaiting::default() };
    outbox.push(waiting);
    let waits = outbox.queue().batch(1).remove(0).event_data.to_string();
    let spooled = fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
    for text in [waits, spooled] {
        assert!(text.contains("***") && !text.contains("Ab3d"), "{text}");
    }
}
