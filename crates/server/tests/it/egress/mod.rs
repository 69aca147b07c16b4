//! The forward proxy of a sandbox, over real sockets. Hosts outside are stand-ins on loopback, which
//! `egress.allow_private` opens; their names are resolved by the test.

mod address;
mod connect;
mod limit;
mod log;
mod plain;
mod settings;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use omoi_server::{
    config::Config,
    gateway::egress::{Egress, SandboxContext, serve},
    resolve::{Resolver, Resolving},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::app::{App, Sandbox, soon, unique};

/// Loopback, where the stand-ins are, may be reached.
pub fn open_loopback(config: &mut Config) {
    config.egress.allow_private = vec!["127.0.0.0/8".parse().unwrap()];
}

/// The proxy of one sandbox.
pub struct Proxy {
    pub address: SocketAddr,
    pub sandbox: Sandbox,
    pub project: String,
    pub names: Arc<Names>,
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
}

impl Proxy {
    /// For a new project with these settings.
    pub async fn start(app: &App, settings: Value) -> Self {
        let body = json!({ "name": unique("project"), "settings": settings });
        let project = app.post("/api/v1/projects", body).await.expect(201)["id"].as_str().unwrap().to_owned();
        let task = app.task(&project, json!({})).await;
        let sandbox = app.attach(json!({ "task_id": task })).await;
        let names = Arc::new(Names::default());
        let own: SocketAddr = app.base.strip_prefix("http://").unwrap().parse().unwrap();
        let (store, clock) = (app.store().clone(), app.clock.clone());
        let egress = Egress::new(&app.config, own, store, clock, Arc::clone(&names) as Arc<dyn Resolver>);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let context =
            SandboxContext { sandbox_id: sandbox.id.parse().unwrap(), project_id: project.parse().unwrap() };
        let stop = CancellationToken::new();
        let serving = Some(tokio::spawn(serve(listener, context, egress, stop.clone())));
        Self { address, sandbox, project, names, stop, serving }
    }

    pub async fn dial(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// Sends a request and reads the answer to its end.
    pub async fn ask(&self, request: &str) -> Answer {
        let mut client = self.dial().await;
        client.send(request.as_bytes()).await;
        client.answer().await
    }

    pub async fn connect(&self, target: &str) -> Answer {
        self.ask(&format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).await
    }

    /// An open tunnel.
    pub async fn tunnel(&self, target: &str) -> Client {
        let mut client = self.dial().await;
        client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).await;
        let established = client.expect(ESTABLISHED.len()).await;
        assert_eq!(String::from_utf8_lossy(&established), ESTABLISHED);
        client
    }

    /// Ends it, with all that is to be logged written.
    pub async fn stop(&mut self) {
        self.stop.cancel();
        soon(self.serving.take().unwrap()).await.unwrap();
    }

    /// Ends it and shows what was logged, newest first.
    pub async fn log(&mut self, app: &App) -> Vec<Value> {
        self.stop().await;
        app.pages(&format!("/api/v1/sandboxes/{}/egress", self.sandbox.id), 100).await
    }
}

const ESTABLISHED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

pub struct Client(pub TcpStream);

impl Client {
    pub async fn send(&mut self, bytes: &[u8]) {
        soon(self.0.write_all(bytes)).await.unwrap();
    }

    pub async fn expect(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        soon(self.0.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    /// Everything until the other side ends; a connection that is reset has ended too.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = soon(self.0.read_to_end(&mut bytes)).await;
        bytes
    }

    pub async fn answer(&mut self) -> Answer {
        Answer(String::from_utf8_lossy(&self.rest().await).into_owned())
    }
}

/// An answer of the proxy, or of the host behind it.
pub struct Answer(pub String);

impl Answer {
    pub fn status(&self) -> u16 {
        self.0.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {:?}", self.0)).parse().unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let head = self.0.split("\r\n\r\n").next().unwrap();
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").unwrap().1
    }

    /// Refused with this status and code, in words that hold these.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str, words: &[&str]) {
        assert_eq!((self.status(), self.header("x-omoi-refused")), (status, Some(code)), "{}", self.0);
        for word in words {
            assert!(self.body().contains(word), "{word:?} is not in {:?}", self.body());
        }
    }
}

/// A host outside: accepts one connection after another and hands them to the test.
pub struct StandIn {
    listener: TcpListener,
    pub port: u16,
}

impl StandIn {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    pub async fn accept(&self) -> Client {
        Client(soon(self.listener.accept()).await.unwrap().0)
    }

    /// Ends every connection as soon as it is there.
    pub fn hang_up(self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move { while self.listener.accept().await.is_ok() {} }))
    }

    /// Accepts a plain request and answers it; gives the request as it came.
    pub async fn answer(&self, answer: &str) -> String {
        let mut client = self.accept().await;
        let request = head(&mut client).await;
        // The other side may have heard enough.
        let _ = soon(client.0.write_all(answer.as_bytes())).await;
        let _ = client.0.shutdown().await;
        request
    }

    /// Whether nobody has connected who was not accepted.
    pub fn is_untouched(&self) -> bool {
        use futures_util::FutureExt;
        self.listener.accept().now_or_never().is_none()
    }
}

/// Reads one head to its empty line.
pub async fn head(client: &mut Client) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.extend(client.expect(1).await);
    }
    String::from_utf8(bytes).unwrap()
}

/// What names stand for: the first answer first, and the last one from then on.
#[derive(Default)]
pub struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub asked: AtomicUsize,
}

impl Names {
    pub fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers);
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let known =
            answers.get_mut(name).map(|left| if left.len() > 1 { left.remove(0) } else { left[0].clone() });
        let answer = known.ok_or_else(|| std::io::Error::other("no such name"));
        Box::pin(std::future::ready(answer))
    }
}

/// A proxy that may reach a stand-in under `good.example`.
pub async fn with_stand_in(app: &App) -> (Proxy, StandIn, String) {
    let stand_in = StandIn::start().await;
    let target = format!("good.example:{}", stand_in.port);
    let proxy = Proxy::start(app, json!({ "egress_allow": [target] })).await;
    proxy.names.set("good.example", &[&["127.0.0.1"]]);
    (proxy, stand_in, target)
}
