//! Which repositories a person may name, and where the server goes to fetch them: through HTTP, and with the real Git
//! against servers on loopback whose names are resolved by the test.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use omoi_protocol::{RepositoryReach, project::Project};
use omoi_server::{config::Config, git::Mirrors};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{Answer, App, On, unique},
    egress::Names,
    on_both,
    repository::{Repository, command, git, project},
    work::text,
};

async fn operator(app: &App) -> String {
    let new = json!({ "name": unique("ada"), "role": "operator" });
    text(&app.post("/api/v1/tokens", new).await.expect(201)["secret"])
}

async fn create(app: &App, token: &str, url: &str) -> Answer {
    let body = json!({ "name": unique("project"), "repository_url": url });
    app.call(Method::POST, "/api/v1/projects", token, Some(&body)).await
}

async fn change(app: &App, token: &str, project: &Value, patch: Value) -> Answer {
    let path = format!("/api/v1/projects/{}", text(&project["id"]));
    app.call(Method::PATCH, &path, token, Some(&patch)).await
}

const NOT_FOR_OPERATORS: &[&str] = &[
    "/root/secret",
    "file:///root/secret",
    "http://127.0.0.1:9200/a",
    "http://[::1]:9200/a",
    "http://localhost:9200/a",
    "http://2130706433/a",
    "http://169.254.169.254/latest",
    "https://10.0.0.1/a",
    "ssh://git@192.168.0.1/a",
    "git@127.0.0.1:a",
    "git://127.0.0.1/a",
];

on_both! {
    async fn an_operator_names_public_hosts_and_an_administrator_anything(app: App) {
        let operator = operator(&app).await;
        let public = create(&app, &operator, "https://forge.example/a.git").await.expect(201);
        assert_eq!(public["repository_reach"], "public");
        for url in NOT_FOR_OPERATORS {
            create(&app, &operator, url).await.refused(403, "repository_not_allowed");
            let patch = json!({ "repository_url": url });
            change(&app, &operator, &public, patch).await.refused(403, "repository_not_allowed");
            let made = create(&app, &app.token, url).await.expect(201);
            assert_eq!((&made["repository_url"], &made["repository_reach"]), (&json!(url), &json!("any")));
        }
        for url in ["https://1.1.1.1/a", "git@github.com:a/b.git", "ssh://git@forge.example:2222/a", "git://forge.example/a"] {
            create(&app, &operator, url).await.expect(201);
        }
        let shown = app.get(&format!("/api/v1/projects/{}", text(&public["id"]))).await.expect(200);
        assert_eq!(shown, public, "nothing that was refused has changed anything");
    }

    async fn what_an_administrator_named_stays_until_the_address_changes(app: App) {
        let operator = operator(&app).await;
        let inner = json!({ "repository_url": "https://inner.example/a" });
        let asked = create(&app, &operator, text(&inner["repository_url"]).as_str()).await.expect(201);
        let seen = change(&app, &app.token, &asked, json!({ "description": "seen" })).await.expect(200);
        assert_eq!(seen["repository_reach"], "public");
        assert_eq!(change(&app, &app.token, &asked, inner.clone()).await.expect(200)["repository_reach"], "any");
        assert_eq!(change(&app, &operator, &asked, inner).await.expect(200)["repository_reach"], "any");

        let made = create(&app, &app.token, "/srv/git/shop").await.expect(201);
        // A page sends all fields along.
        let same = json!({ "repository_url": "/srv/git/shop", "description": "the shop" });
        let changed = change(&app, &operator, &made, same).await.expect(200);
        assert_eq!((&changed["repository_reach"], &changed["description"]), (&json!("any"), &json!("the shop")));
        change(&app, &operator, &made, json!({ "repository_url": "/srv/git/other" })).await
            .refused(403, "repository_not_allowed");
        let public = json!({ "repository_url": "https://forge.example/shop" });
        assert_eq!(change(&app, &operator, &made, public).await.expect(200)["repository_reach"], "public");
        change(&app, &operator, &made, json!({ "repository_url": "/srv/git/shop" })).await
            .refused(403, "repository_not_allowed");
        let again = json!({ "repository_url": "/srv/git/shop" });
        assert_eq!(change(&app, &app.token, &made, again).await.expect(200)["repository_reach"], "any");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_opened_an_operator_may_name() {
    let far = Repository::new();
    let opened = far.path.parent().unwrap().to_owned();
    let app = App::start_with(On::Sqlite, |config| {
        config.git.allow_private = vec!["10.0.0.0/8".parse().unwrap()];
        config.git.allow_paths = vec![opened.clone()];
    })
    .await;
    let operator = operator(&app).await;
    create(&app, &operator, "https://10.1.2.3/a").await.expect(201);
    create(&app, &operator, far.path.to_str().unwrap()).await.expect(201);
    for url in ["https://192.168.0.1/a", "/etc", opened.join("../etc").to_str().unwrap(), "/nonexistent"] {
        create(&app, &operator, url).await.refused(403, "repository_not_allowed");
    }
}

/// Mirrors of a machine on which a directory and loopback are opened.
struct Place {
    mirrors: Mirrors,
    names: Arc<Names>,
    /// Opened to operators.
    open: PathBuf,
    _dir: tempfile::TempDir,
}

impl Place {
    fn new(private: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        let mut config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        config.git.allow_private = private.iter().map(|range| range.parse().unwrap()).collect();
        config.git.allow_paths = vec![open.clone()];
        config.git.token = Some("very-secret-token".into());
        let names = Arc::new(Names::default());
        let mirrors = Mirrors::with_resolver(&config, names.clone()).unwrap();
        Self { mirrors, names, open, _dir: dir }
    }

    /// What becomes of a fetch from an address that an operator has set.
    async fn fetch(&self, url: &str) -> Result<String, String> {
        let project = Project {
            repository_reach: RepositoryReach::Public,
            ..project(&unique("prj-x").replace('_', "-"), Some(url))
        };
        self.mirrors.refresh(&project).await.map(|tip| tip.to_string()).map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn a_path_is_judged_by_where_everything_in_it_really_leads() {
    let (place, secret) = (Place::new(&[]), Repository::new());
    let open = |name: &str| place.open.join(name);
    let copy = |name: &str| {
        git(Path::new("/"), &["clone", "-q", secret.path.to_str().unwrap(), open(name).to_str().unwrap()]);
        open(name).join(".git")
    };
    let fetched = async |name: &str| place.fetch(open(name).to_str().unwrap()).await;

    copy("fine");
    assert_eq!(fetched("fine").await.unwrap(), secret.head());
    git(&open("fine"), &["clone", "-q", "--bare", ".", open("bare.git").to_str().unwrap()]);
    assert_eq!(fetched("bare.git").await.unwrap(), secret.head());

    let secret_git = secret.path.join(".git");
    symlink(&secret.path, open("link")).unwrap();
    fs::create_dir(open("linked-git")).unwrap();
    symlink(&secret_git, open("linked-git/.git")).unwrap();
    fs::create_dir(open("git-file")).unwrap();
    fs::write(open("git-file/.git"), format!("gitdir: {}\n", secret_git.display())).unwrap();
    fs::write(copy("common").join("commondir"), format!("{}\n", secret_git.display())).unwrap();
    fs::write(
        copy("alternates").join("objects/info/alternates"),
        secret_git.join("objects").to_str().unwrap(),
    )
    .unwrap();
    let objects = copy("objects").join("objects");
    fs::remove_dir_all(&objects).unwrap();
    symlink(secret_git.join("objects"), &objects).unwrap();
    let head = copy("refs").join("refs/heads/stolen");
    symlink(secret_git.join("refs/heads/main"), head).unwrap();
    for name in
        ["link", "linked-git", "git-file", "common", "alternates", "objects", "refs", "gone", "../data"]
    {
        let refused = fetched(name).await.unwrap_err();
        assert!(refused.contains("is not inside git.allow_paths"), "{name}: {refused}");
    }
}

/// A web server on loopback. It counts what it is asked.
struct Web {
    port: u16,
    asked: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Site {
    /// Files below it are served; without it every request is answered by `answer`.
    root: Option<PathBuf>,
    answer: Arc<dyn Fn(&str) -> Response + Send + Sync>,
    asked: Arc<AtomicUsize>,
}

impl Web {
    async fn serve(root: Option<PathBuf>, answer: impl Fn(&str) -> Response + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(AtomicUsize::new(0));
        let site = Site { root, answer: Arc::new(answer), asked: asked.clone() };
        let app = Router::new().fallback(visit).with_state(site);
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { port, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// A repository as plain files.
    async fn of(far: &Repository) -> Self {
        far.git(&["update-server-info"]);
        Self::serve(Some(far.path.join(".git")), |_| StatusCode::NOT_FOUND.into_response()).await
    }
}

async fn visit(State(site): State<Site>, request: Request) -> Response {
    site.asked.fetch_add(1, Ordering::SeqCst);
    let path = request.uri().path();
    let file = site.root.map(|root| root.join(path.trim_start_matches("/r/")));
    match file.and_then(|file| fs::read(file).ok()) {
        Some(content) => content.into_response(),
        None => (site.answer)(&request.uri().to_string()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_that_was_judged_is_the_one_that_is_fetched_from() {
    let (place, far) = (Place::new(&["127.0.0.0/8"]), Repository::new());
    let web = Web::of(&far).await;
    // No name server but the test's knows this name, so Git can only have been told the address.
    place.names.set("forge.example", &[&["127.0.0.1"]]);
    let fetched = place.fetch(&format!("http://Forge.Example.:{}/r/", web.port)).await;
    assert_eq!(fetched, Ok(far.head()));
    assert_eq!(place.names.asked(), 1, "a name is resolved once for a fetch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_changes_its_mind_reaches_nothing() {
    let (place, far) = (Place::new(&[]), Repository::new());
    let web = Web::of(&far).await;
    let url = format!("http://rebind.example:{}/r/", web.port);
    for answers in
        [&["127.0.0.1"][..], &["93.184.216.34", "127.0.0.1"], &["::1"], &["::ffff:127.0.0.1"], &["10.0.0.1"]]
    {
        place.names.set("rebind.example", &[answers]);
        let refused = place.fetch(&url).await.unwrap_err();
        assert!(refused.contains("rebind.example") && refused.contains("git.allow_private"), "{refused}");
    }
    assert_eq!(web.asked(), 0);
    // The second answer is never asked for: Git is held to the first, where nothing listens.
    let place = Place::new(&["127.0.0.2"]);
    place.names.set("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]]);
    let refused = place.fetch(&url).await.unwrap_err();
    assert!(refused.contains("cannot be reached"), "{refused}");
    assert_eq!((web.asked(), place.names.asked()), (0, 1));
    assert!(place.fetch(&url).await.unwrap_err().contains("a loopback address"));
    let nowhere = place.fetch("https://unknown.example/a").await.unwrap_err();
    assert!(nowhere.contains("unknown.example of repository_url has no address"), "{nowhere}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_to_another_host_is_not_followed_and_nothing_of_an_answer_is_repeated() {
    let (place, far) = (Place::new(&["127.0.0.0/8"]), Repository::new());
    let inner = Web::of(&far).await;
    let target = format!("http://127.0.0.1:{}/r", inner.port);
    let to = target.clone();
    let redirects = Web::serve(None, move |path| {
        let location = format!("{to}{}", path.trim_start_matches("/r"));
        (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
    })
    .await;
    // Administrators' addresses lead no further than theirs either.
    for reach in [RepositoryReach::Public, RepositoryReach::Any] {
        let url = format!("http://127.0.0.1:{}/r", redirects.port);
        let project = Project { repository_reach: reach, ..project("prj-redirect", Some(&url)) };
        let refused = place.mirrors.refresh(&project).await.unwrap_err().to_string();
        assert!(refused.contains("redirects to another address"), "{refused}");
        assert_eq!(inner.asked(), 0, "{reach}");
    }
    for status in [StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::INTERNAL_SERVER_ERROR] {
        let says = Web::serve(None, move |_| {
            (status, [(header::CONTENT_TYPE, "text/plain")], "internal-secret\n".repeat(50)).into_response()
        })
        .await;
        let refused = place.fetch(&format!("http://127.0.0.1:{}/r", says.port)).await.unwrap_err();
        assert!(says.asked() > 0 && refused.len() < 300 && !refused.contains('\n'), "{refused}");
        assert!(!refused.contains("internal") && !refused.contains("very-secret"), "{status}: {refused}");
    }
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // Git passes it on to the program that it has started.
        let id = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_protocol_of_git_is_pinned_as_well() {
    let (place, far) = (Place::new(&["127.0.0.0/8"]), Repository::new());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let base = far.path.parent().unwrap();
    let daemon = command(
        base,
        &[
            "daemon",
            "--reuseaddr",
            "--listen=127.0.0.1",
            &format!("--port={port}"),
            "--export-all",
            // The repository is found only where the client still names the host.
            &format!("--interpolated-path={}/%H%D", base.display()),
        ],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn();
    let _daemon = Daemon(daemon.unwrap());
    symlink(base, base.join("forge.example")).unwrap();
    place.names.set("forge.example", &[&["127.0.0.1"]]);
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::task::yield_now().await;
    }
    let fetched = place.fetch(&format!("git://forge.example:{port}/work")).await;
    assert_eq!(fetched, Ok(far.head()));
    place.names.set("forge.example", &[&["10.0.0.1"]]);
    assert!(place.fetch(&format!("git://forge.example:{port}/work")).await.unwrap_err().contains("private"));
}
