//! Git through the door: the real client against the real server, over loopback.

use std::{io::Write, process::Output};

use omoi_server::{
    config::Config,
    git::{Mirrors, preserved_ref},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    app::{App, On, Sandbox, eventually, soon},
    on_both,
    repository::{Repository, command, git},
    work::{LEASE, SECOND, text},
};

const ZERO: &str = "0000000000000000000000000000000000000000";

/// A project with its far repository, and a sandbox at work on a task of it.
struct Work {
    far: Repository,
    project: String,
    sandbox: Sandbox,
    branch: String,
}

impl Work {
    async fn start(app: &App) -> Self {
        let far = Repository::new();
        let body = json!({ "name": far.path, "repository_url": far.path });
        let project = text(&app.post("/api/v1/projects", body).await.expect(201)["id"]);
        let task = app.task(&project, json!({})).await;
        Self::attach(app, far, project, &task).await
    }

    async fn attach(app: &App, far: Repository, project: String, task: &str) -> Self {
        let sandbox = app.attached_to(task).await;
        let branch = text(&app.show_sandbox(&sandbox).await["branch_name"]);
        Self { far, project, sandbox, branch }
    }

    fn url(&self, app: &App) -> String {
        format!("{}/git/{}.git", app.base, self.project)
    }

    fn header(&self) -> String {
        format!("http.extraHeader=Authorization: Bearer {}", self.sandbox.token)
    }

    /// A clone as the worker has it, on the sandbox's branch.
    fn clone(&self, app: &App) -> Repository {
        let clone = Repository::empty();
        clone.git(&["config", "http.extraHeader", &self.header()["http.extraHeader=".len()..]]);
        clone.git(&["remote", "add", "origin", &self.url(app)]);
        clone.git(&["fetch", "-q"]);
        clone.git(&["checkout", "-q", "-b", &self.branch, &format!("origin/{}", self.branch)]);
        clone
    }

    fn push(&self, clone: &Repository, args: &[&str]) -> Output {
        clone.try_git(&[&["push", "-q", "origin"], args].concat())
    }

    /// All refs of the mirror.
    fn refs(&self, app: &App) -> String {
        let mirror = app.config.data_dir.join(format!("mirrors/{}.git", self.project));
        git(&mirror, &["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    fn tip(&self, app: &App, name: &str) -> Option<String> {
        let refs = self.refs(app);
        refs.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).map(str::to_owned)
    }

    fn own_ref(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// What the sandbox's pushes have come to, newest first.
    async fn pushes(&self, app: &App) -> Vec<Value> {
        let path = format!("/api/v1/sandboxes/{}/events?event_type=git.push", self.sandbox.id);
        let page = app.get(&path).await.expect(200);
        let events = page["events"].as_array().unwrap();
        assert!(events.iter().all(|event| event["source"] == "system"), "{events:?}");
        events.iter().map(|event| event["event_data"].clone()).collect()
    }
}

#[track_caller]
fn says(output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{words:?} is not in: {said}");
}

#[track_caller]
fn fine(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

on_both! {
    async fn a_sandbox_clones_and_pushes_its_own_branch(app: App) {
        let work = Work::start(&app).await;
        let clone = work.clone(&app);
        let base = clone.head();
        assert_eq!(base, work.far.head());
        let commit = clone.commit("new", "new\n");
        fine(&work.push(&clone, &[&work.branch]));
        assert_eq!(work.tip(&app, &work.own_ref()), Some(commit.clone()));
        let pushed = json!({ "ref": work.own_ref(), "old": base, "new": commit, "accepted": true, "reason": null });
        assert_eq!(work.pushes(&app).await, [pushed]);

        // More than fits one buffer of the client: it asks first, then sends in pieces.
        let large = clone.commit_noise("large", 3 << 20);
        fine(&work.push(&clone, &[&work.branch]));
        assert_eq!(work.tip(&app, &work.own_ref()), Some(large.clone()));

        // And to keep what is not on a branch.
        let kept = preserved_ref(&work.sandbox.id.parse().unwrap());
        fine(&work.push(&clone, &[&format!("HEAD~1:{kept}")]));
        assert_eq!(work.tip(&app, &kept), Some(commit));

        // A second clone of the same project sees it all, in every version of the protocol, and nothing of our own.
        for version in ["0", "1", "2"] {
            let args = ["-c", &format!("protocol.version={version}"), "-c", &work.header(), "ls-remote", &work.url(&app)];
            let listed = git(&clone.path, &args);
            assert!(listed.contains(&format!("{large}\t{}", work.own_ref())) && listed.contains(&kept), "{listed}");
            assert!(!listed.contains("refs/omoi"), "{listed}");
            let to = format!("clone-{version}");
            let args = ["-c", &format!("protocol.version={version}"), "-c", &work.header(), "clone", "-q", &work.url(&app), &to];
            git(&clone.path, &args);
            assert_eq!(git(&clone.path.join(to), &["rev-parse", "HEAD"]), work.far.head());
        }
    }

    async fn what_a_sandbox_may_not_push_is_refused_in_words_and_changes_nothing(app: App) {
        let work = Work::start(&app).await;
        let clone = work.clone(&app);
        clone.commit("new", "new\n");
        clone.git(&["tag", "v9"]);
        let before = work.refs(&app);
        let only_own = format!("this sandbox may push to {} only", work.branch);
        for (args, name, words) in [
            (vec!["HEAD:refs/heads/main"], "refs/heads/main", "main is the default branch"),
            (vec!["HEAD:refs/heads/other"], "refs/heads/other", only_own.as_str()),
            (vec!["v9"], "refs/tags/v9", "a sandbox pushes no tags"),
            (vec![":refs/heads/main"], "refs/heads/main", "nothing is deleted from a sandbox"),
            (vec!["--delete", &work.branch], &work.own_ref(), "nothing is deleted from a sandbox"),
            (vec!["HEAD:refs/preserved/sbx-other"], "refs/preserved/sbx-other", "of another sandbox is not changed"),
            (vec!["HEAD:refs/omoi/base/x"], "refs/omoi/base/x", "no sandbox may push to this ref"),
            (vec!["HEAD:refs/remotes/origin/main"], "refs/remotes/origin/main", "no sandbox may push to this ref"),
        ] {
            says(&work.push(&clone, &args), words);
            assert_eq!(work.refs(&app), before, "{args:?}");
            let event = &work.pushes(&app).await[0];
            assert_eq!((event["ref"].as_str(), event["accepted"].as_bool()), (Some(name), Some(false)), "{event}");
            assert!(text(&event["reason"]).contains(words), "{event}");
        }
        // One wish too many takes the others with it.
        let both = work.push(&clone, &[&work.branch, "HEAD:refs/heads/other"]);
        says(&both, "another ref of the push is refused");
        assert_eq!(work.refs(&app), before);
        assert!(!work.pushes(&app).await.iter().any(|event| event["accepted"] == true));
    }

    async fn a_sandbox_takes_back_its_own_work_and_nobody_else_s(app: App) {
        let work = Work::start(&app).await;
        let clone = work.clone(&app);
        let mine = clone.commit("mine", "first try\n");
        fine(&work.push(&clone, &[&work.branch]));
        clone.git(&["reset", "-q", "--hard", "HEAD~1"]);
        let better = clone.commit("mine", "second try\n");
        says(&work.push(&clone, &[&work.branch]), "non-fast-forward");
        fine(&work.push(&clone, &["--force", &work.branch]));
        assert_eq!(work.tip(&app, &work.own_ref()), Some(better.clone()));

        // Without what was there before it, forced or not.
        clone.git(&["checkout", "-q", "--orphan", "elsewhere"]);
        clone.commit("other", "other history\n");
        let refused = work.push(&clone, &["--force", &format!("HEAD:{}", work.branch)]);
        says(&refused, "would lose commits that were there before this sandbox");
        let event = &work.pushes(&app).await[0];
        assert!(text(&event["reason"]).starts_with("the branch would lose commits"), "{event}");

        // The next attempt at the task starts from it, and cannot take it back.
        app.advance(LEASE + SECOND).await;
        let Work { far, project, sandbox: first, .. } = work;
        let next = Work::attach(&app, far, project, &first.task.unwrap()).await;
        assert_eq!(next.branch, work.branch);
        let clone = next.clone(&app);
        assert_eq!(clone.head(), better);
        clone.git(&["reset", "-q", "--hard", "HEAD~1"]);
        clone.commit("mine", "a third try\n");
        let refused = next.push(&clone, &["--force", &next.branch]);
        says(&refused, &format!("keep {better} in its history"));
        assert_eq!(next.tip(&app, &next.own_ref()), Some(better));
        assert_ne!(mine, clone.head());
    }

    async fn one_that_has_ended_may_only_keep_what_it_has(app: App) {
        let work = Work::start(&app).await;
        let clone = work.clone(&app);
        let late = clone.commit("late", "late\n");
        app.advance(LEASE + SECOND).await;
        let before = work.refs(&app);
        says(&work.push(&clone, &[&work.branch]), "this sandbox has ended; it may push to refs/preserved/");
        assert_eq!(work.refs(&app), before);
        let kept = preserved_ref(&work.sandbox.id.parse().unwrap());
        fine(&work.push(&clone, &[&format!("HEAD:{kept}")]));
        assert_eq!(work.tip(&app, &kept), Some(late));
        let accepted: Vec<bool> = work.pushes(&app).await.iter().map(|event| event["accepted"] == true).collect();
        assert_eq!(accepted, [true, false]);

        app.post(&format!("/api/v1/sandboxes/{}/terminate", work.sandbox.id), json!({})).await.expect(200);
        says(&work.push(&clone, &["--force", &format!("HEAD~1:{kept}")]), "the token's sandbox has ended");
        says(&clone.try_git(&["fetch", "origin"]), "the token's sandbox has ended");
    }

    async fn a_token_opens_its_own_project_and_branch_alone(app: App) {
        let (one, two) = (Work::start(&app).await, Work::start(&app).await);
        let task = app.task(&one.project, json!({ "title": "another" })).await;
        let beside = app.attached_to(&task).await;
        let (clone, _) = (one.clone(&app), two.clone(&app));
        clone.commit("new", "new\n");
        let with = |token: &str, args: &[&str]| {
            let header = format!("http.extraHeader=Authorization: Bearer {token}");
            // The token of the clone's own configuration is taken out of the list first.
            clone.try_git(&[&["-c", "http.extraHeader=", "-c", &header], args].concat())
        };
        let (url, refspec) = (one.url(&app), format!("HEAD:{}", one.branch));
        fine(&with(&beside.token, &["fetch", &url]));
        let before = (one.refs(&app), two.refs(&app));
        says(&with(&two.sandbox.token, &["push", &url, &refspec]), "a sandbox of another project");
        says(&with(&two.sandbox.token, &["fetch", &url]), "a sandbox of another project");
        says(&with(&beside.token, &["push", &url, &refspec]), "this sandbox may push to");
        says(&with("wrong", &["push", &url, &refspec]), "the token is not known here");
        says(&with("wrong", &["fetch", &url]), "not known here");
        says(&clone.try_git(&["-c", "http.extraHeader=", "fetch", &url]), "could not read Username");
        let nowhere = url.replace(&one.project, "prj-nowhere");
        says(&with(&app.token, &["fetch", &nowhere]), "there is no repository");
        says(&with(&app.token, &["push", &url, &refspec]), "only a sandbox pushes here");
        let viewer = app.operator("looker", "viewer").await;
        fine(&with(&viewer, &["fetch", &url]));
        let login = url.replace("http://", &format!("http://any:{}@", one.sandbox.token));
        fine(&clone.try_git(&["-c", "http.extraHeader=", "fetch", &login]));
        let login = url.replace("http://", "http://any:wrong@");
        let refused = clone.try_git(&["-c", "http.extraHeader=", "fetch", &login]);
        says(&refused, "Authentication failed");
        says(&refused, "the token is not known here");
        assert_eq!((one.refs(&app), two.refs(&app)), before);
    }

    async fn what_is_not_a_push_is_refused_and_written_down(app: App) {
        let work = Work::start(&app).await;
        work.clone(&app);
        let before = work.refs(&app);
        let (tip, own) = (work.far.head(), work.own_ref());
        let wish = format!("{tip} {tip} {own}\0report-status");
        let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
        for (body, words) in [
            ("PACK".to_owned(), "length is not one that Git writes"),
            (String::new(), "ends before it says what it is for"),
            (line(&wish), "ends before it says what it is for"),
            (line(&format!("{tip} x {own}")) + "0000", "not an object's id"),
            (line("push-cert\0x") + "0000", "not OLD NEW REF"),
            (line(&format!("{tip} {tip} refs/heads/{}", "x".repeat(60_000))).repeat(3), "more than 64 KiB of refs"),
        ] {
            let said = post(&app, &work, "git-receive-pack", body.into_bytes(), None).await;
            assert_eq!(said.0, 400);
            let said = String::from_utf8(said.1).unwrap();
            assert!(said.starts_with("the push cannot be read: ") && said.contains(words), "{said}");
            assert!(text(&work.pushes(&app).await[0]["reason"]).contains(words));
        }
        // Only asks whether it would be let in.
        assert_eq!(post(&app, &work, "git-receive-pack", b"0000".to_vec(), None).await, (200, Vec::new()));
        // Well said, but the pack is none, or half of one.
        let moved = format!("{}{}0000", line(&format!("{tip} {} {own}\0report-status", "a".repeat(40))), "");
        for pack in ["", "PACK\0\0\0\u{2}\0\0\0\u{1}", "not a pack at all, and longer than the head of one"] {
            let (status, said) = post(&app, &work, "git-receive-pack", format!("{moved}{pack}").into_bytes(), None).await;
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(status == 400 || said.contains("ng "), "{status} {said}");
            assert_eq!(work.pushes(&app).await[0]["accepted"], false);
        }
        assert_eq!(work.refs(&app), before);
        let unsure = post(&app, &work, "git-receive-pack", b"0000".to_vec(), Some("br")).await;
        assert_eq!(unsure.0, 415);
    }
}

async fn post(app: &App, work: &Work, service: &str, body: Vec<u8>, coding: Option<&str>) -> (u16, Vec<u8>) {
    let url = format!("{}/{service}", work.url(app));
    let mut request = app.http.request(Method::POST, url).bearer_auth(&work.sandbox.token).body(body);
    if let Some(coding) = coding {
        request = request.header("content-encoding", coding);
    }
    if service == "git-upload-pack" {
        request = request.header("git-protocol", "version=2");
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
}

async fn start(change: impl FnOnce(&mut Config)) -> App {
    App::start_with(On::Sqlite, change).await
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packed_request_is_unpacked_and_one_that_unpacks_without_end_is_cut_off() {
    let app = start(|config| config.git.push_bytes_max = 1 << 20).await;
    let work = Work::start(&app).await;
    work.clone(&app);
    let ask = b"0014command=ls-refs\n0000".as_slice();
    let (status, listed) = post(&app, &work, "git-upload-pack", packed(ask), Some("gzip")).await;
    assert_eq!(status, 200);
    assert!(String::from_utf8_lossy(&listed).contains(&work.own_ref()));

    let wish = format!("{} {} {}\0report-status", work.far.head(), "a".repeat(40), work.own_ref());
    let mut flood = format!("{:04x}{wish}0000PACK\0\0\0\u{2}\0\0\0\u{9}", wish.len() + 4).into_bytes();
    flood.resize(64 << 20, 0);
    let flood = packed(&flood);
    assert!(flood.len() < 1 << 18);
    let (_, said) = post(&app, &work, "git-receive-pack", flood, Some("gzip")).await;
    assert!(String::from_utf8_lossy(&said).contains("ng "), "{}", String::from_utf8_lossy(&said));
    let (status, _) = post(&app, &work, "git-receive-pack", b"not packed".to_vec(), Some("gzip")).await;
    assert_eq!(status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_over_the_limit_is_refused_with_the_limit() {
    let app = start(|config| config.git.push_bytes_max = 64 << 10).await;
    let work = Work::start(&app).await;
    let clone = work.clone(&app);
    let before = work.refs(&app);
    // Much more than the limit, and less than what is heard out.
    clone.commit_noise("large", 200 << 10);
    let words = "one push may bring at most 65536 bytes";
    says(&work.push(&clone, &[&work.branch]), words);
    assert_eq!(work.refs(&app), before);
    let event = &work.pushes(&app).await[0];
    assert!(text(&event["reason"]).starts_with(words), "{event}");
    no_leavings(&app, &work);
    clone.git(&["reset", "-q", "--hard", "HEAD~1"]);
    clone.commit("small", "small\n");
    fine(&work.push(&clone, &[&work.branch]));
}

/// Nothing of a push that was refused stays in the mirror.
fn no_leavings(app: &App, work: &Work) {
    let mirror = app.config.data_dir.join(format!("mirrors/{}.git", work.project));
    let left: Vec<_> =
        std::fs::read_dir(mirror.join("objects")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_str().unwrap().starts_with("tmp_")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_in_the_middle_of_a_push_leaves_nothing() {
    let app = start(|_| {}).await;
    let work = Work::start(&app).await;
    work.clone(&app);
    let before = work.refs(&app);
    let mut socket = tokio::net::TcpStream::connect(app.base.strip_prefix("http://").unwrap()).await.unwrap();
    let text_ = format!("{} {} {}\0report-status", work.far.head(), "a".repeat(40), work.own_ref());
    let body = format!("{:04x}{text_}0000PACK\0\0\0\u{2}\0\0\0\u{9}", text_.len() + 4);
    let head = format!(
        "POST /git/{}.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\
         Content-Length: 100000\r\n\r\n{body}",
        work.project, work.sandbox.token
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    drop(socket);
    let event = eventually(async || work.pushes(&app).await.into_iter().next()).await;
    assert_eq!(event["accepted"], false, "{event}");
    assert_eq!(work.refs(&app), before);
    no_leavings(&app, &work);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_in_the_middle_of_a_fetch_ends_it() {
    let app = start(|config| config.git.packs_max = 1).await;
    let work = Work::start(&app).await;
    // More than the buffers on the way hold, so that Git waits for a reader.
    work.far.commit_noise("large", 16 << 20);
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let args = ["-c", &work.header(), "ls-remote", &work.url(&app)];
    git(&work.far.path, &args);
    let wish = format!(
        "{}0001{}{}0000",
        line("command=fetch\n"),
        line(&format!("want {}\n", work.far.head())),
        line("done\n")
    );
    let mut socket = tokio::net::TcpStream::connect(app.base.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST /git/{}.git/git-upload-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\
         Git-Protocol: version=2\r\nContent-Length: {}\r\n\r\n{wish}",
        work.project,
        work.sandbox.token,
        wish.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0u8; 1024];
    socket.read_exact(&mut first).await.unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&first));
    drop(socket);
    // The one place that there is becomes free again.
    git(&work.far.path, &args);
}

/// The end of a connection, after whatever was on its way.
async fn is_closed(socket: &mut tokio::net::TcpStream) {
    let mut rest = Vec::new();
    let _ = soon(socket.read_to_end(&mut rest)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_is_cut_off_when_its_token_ends_and_changes_nothing() {
    let app = start(|_| {}).await;
    let work = Work::start(&app).await;
    work.clone(&app);
    let before = work.refs(&app);
    let mut socket = tokio::net::TcpStream::connect(app.base.strip_prefix("http://").unwrap()).await.unwrap();
    let wish = format!("{} {} {}\0report-status", work.far.head(), "a".repeat(40), work.own_ref());
    let body = format!("{:04x}{wish}0000PACK\0\0\0\u{2}\0\0\0\u{9}", wish.len() + 4);
    let head = format!(
        "POST /git/{}.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\
         Content-Length: 100000\r\n\r\n{body}",
        work.project, work.sandbox.token
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    revoke(&app, &work).await;
    // The client goes on holding the connection, and sends nothing more.
    let event = eventually(async || work.pushes(&app).await.into_iter().next()).await;
    assert_eq!(event["accepted"], false, "{event}");
    assert_eq!(work.refs(&app), before);
    no_leavings(&app, &work);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_is_cut_off_when_its_token_ends() {
    let app = start(|_| {}).await;
    let work = Work::start(&app).await;
    work.clone(&app);
    let mut socket = tokio::net::TcpStream::connect(app.base.strip_prefix("http://").unwrap()).await.unwrap();
    // Git waits for the rest of the request.
    let head = format!(
        "POST /git/{}.git/git-upload-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\
         Git-Protocol: version=2\r\nContent-Length: 1000\r\n\r\n0011command=fetch0001",
        work.project, work.sandbox.token
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0u8; 12];
    soon(socket.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    revoke(&app, &work).await;
    is_closed(&mut socket).await;
}

/// As another process would, which tells this one nothing.
async fn revoke(app: &App, work: &Work) {
    let id = &work.sandbox.id;
    app.sql(&format!("UPDATE tokens SET revoked_at = created_at WHERE sandbox_id = '{id}'")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_harm_those_who_check_it_out_is_refused() {
    let app = start(|_| {}).await;
    let work = Work::start(&app).await;
    let clone = work.clone(&app);
    let before = work.refs(&app);
    let blob = clone.git(&["hash-object", "-w", "README.md"]);
    clone.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},sub/config")]);
    let inner = clone.git(&["write-tree", "--prefix=sub/"]);
    let mut mktree = command(&clone.path, &["mktree"]);
    let mut child =
        mktree.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("040000 tree {inner}\t.git\n").as_bytes()).unwrap();
    let tree = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let evil = clone.git(&["commit-tree", tree.trim(), "-p", "HEAD", "-m", "evil"]);
    says(&work.push(&clone, &[&format!("{evil}:{}", work.own_ref())]), "hasDotgit");
    assert_eq!(work.refs(&app), before);
    assert!(text(&work.pushes(&app).await[0]["reason"]).contains("hasDotgit"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_push_to_an_empty_repository_makes_the_branch() {
    let app = start(|_| {}).await;
    let far = Repository::empty();
    let body = json!({ "name": "empty", "repository_url": far.path });
    let project = text(&app.post("/api/v1/projects", body).await.expect(201)["id"]);
    let task = app.task(&project, json!({})).await;
    let work = Work::attach(&app, far, project, &task).await;
    let clone = Repository::new();
    clone.git(&["config", "http.extraHeader", &format!("Authorization: Bearer {}", work.sandbox.token)]);
    clone.git(&["remote", "add", "origin", &work.url(&app)]);
    fine(&work.push(&clone, &[&format!("HEAD:{}", work.own_ref())]));
    assert_eq!(work.tip(&app, &work.own_ref()), Some(clone.head()));
    assert_eq!(work.pushes(&app).await[0]["old"], Value::Null);

    // A refresh keeps it, as it keeps all that was pushed.
    let mirrors = Mirrors::new(&app.config).unwrap();
    let project = app.store().project_get(&work.project.parse().unwrap()).await.unwrap();
    assert!(mirrors.refresh(&project).await.is_err(), "there is still nothing to begin at");
    assert_eq!(work.tip(&app, &work.own_ref()), Some(clone.head()));
    assert_ne!(clone.head(), ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_clones_than_may_run_at_once_wait_for_their_turn() {
    let app = start(|config| config.git.packs_max = 2).await;
    let work = Work::start(&app).await;
    let dir = tempfile::tempdir().unwrap();
    let mut clones: Vec<_> = (0..8)
        .map(|n| {
            command(dir.path(), &["-c", &work.header(), "clone", "-q", &work.url(&app), &n.to_string()])
                .spawn()
                .unwrap()
        })
        .collect();
    for clone in &mut clones {
        assert!(clone.wait().unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_fetched_is_said_to_the_one_who_clones() {
    let app = start(|_| {}).await;
    let body = json!({ "name": "gone", "repository_url": "/nonexistent/repository" });
    let project = text(&app.post("/api/v1/projects", body).await.expect(201)["id"]);
    let dir = Repository::empty();
    let header = format!("http.extraHeader=Authorization: Bearer {}", app.token);
    let url = format!("{}/git/{project}.git", app.base);
    says(
        &dir.try_git(&["-c", &header, "fetch", &url]),
        "no repository is there: check the project's repository_url",
    );
    let dumb = app.get(&format!("/git/{project}.git/info/refs")).await;
    assert_ne!(dumb.status, 200);
}
