//! The door of a sandbox: what comes through it counts only with that sandbox's own token, by whichever route.

use std::{net::SocketAddr, sync::Arc};

use omoi_server::{
    bus::Bus,
    directories::Directories,
    gateway::{door::Doors, egress::Egress, model},
    git::Mirrors,
    http::{self, Gate},
    resolve::System,
    sandbox::DoorSockets,
    usual::Usual,
};
use reqwest::Method;
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::{App, Sandbox, answer},
    on_both,
    viewer::Said,
};

impl App {
    /// Opens a door for the sandbox, and from here on goes through it.
    async fn through_door(&mut self, sandbox: &Sandbox, stop: &CancellationToken) {
        let socket = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = DoorSockets { api: socket(), proxy: socket() };
        let own: SocketAddr = self.base.trim_start_matches("http://").parse().unwrap();
        let door = sockets.api.local_addr().unwrap();
        let (config, store, tracker) = (self.config.clone(), self.store().clone(), TaskTracker::new());
        let library = model::Library::load(&config.model).unwrap();
        let app = http::router(
            config.clone(),
            http::Parts {
                address: own,
                clock: self.clock.clone(),
                store: store.clone(),
                gate: Arc::new(Gate::new(&config.limits)),
                bus: Bus::new(16, 1 << 20).0,
                wake: Arc::default(),
                mirrors: Mirrors::new(&config).unwrap(),
                directories: Arc::new(Directories::new(&config.data_dir)),
                calls: model::Calls::start(&config, &store, library, &tracker, stop).unwrap(),
                usual: Usual::load(None).unwrap(),
                stop: stop.clone(),
            },
        );
        let egress = Egress::new(&config, own, store, self.clock.clone(), Arc::new(System::default()));
        let project = "prj-1".parse().unwrap();
        let doors = Doors::new(app, egress, tracker, stop.clone());
        doors.open_for(&sandbox.id.parse().unwrap(), &project, sockets).unwrap();
        self.base = format!("http://{door}");
    }
}

on_both! {
    |config| config.limits.failed_logins_per_minute = 3 =>

    async fn through_a_door_only_the_sandbox_s_own_token_counts(app: App) {
        let mut app = app;
        let (own, other) = (app.sandbox().await, app.sandbox().await);
        let cookie = answer(app.http.post(format!("{}/api/v1/session", app.base)).json(&json!({ "token": app.token }))).await;
        let cookie = cookie.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let stop = CancellationToken::new();
        app.through_door(&own, &stop).await;
        app.call(Method::GET, "/api/v1/whoami", &own.token, None).await.expect(200);
        for found in [&other.token, &app.token] {
            app.call(Method::GET, "/api/v1/whoami", found, None).await.refused(403, "wrong_door");
            let mut viewer = app.try_watch(found, "").await.unwrap();
            let Said::Json(said) = viewer.hear().await else { panic!("it is told why") };
            assert!(said["error"].as_str().unwrap().contains("door"), "{said}");
            assert_eq!(viewer.hear().await, Said::Closed(4401));
            let git = app.http.get(format!("{}/git/prj-1.git/info/refs?service=git-upload-pack", app.base));
            assert_eq!(answer(git.bearer_auth(found)).await.status, 403);
            let asked = app.call(Method::POST, "/model/anthropic/v1/messages", found, Some(&json!({}))).await;
            assert_eq!(asked.status, 403);
            let sign_in = app.http.post(format!("{}/api/v1/session", app.base)).json(&json!({ "token": found }));
            answer(sign_in).await.refused(403, "wrong_door");
        }
        let out = app.http.delete(format!("{}/api/v1/session", app.base)).header("cookie", cookie);
        answer(out.header("x-omoi-csrf", "1")).await.refused(403, "wrong_door");
        // Whoever guesses inside is slowed there, and nowhere else.
        for _ in 0..3 {
            app.call(Method::GET, "/api/v1/whoami", "guess", None).await.refused(401, "token_wrong");
        }
        app.call(Method::GET, "/api/v1/whoami", "guess", None).await.refused(429, "too_many_wrong_tokens");
        stop.cancel();
    }
}
