//! The client against a small server of tools (`server.py`), started as a program and asked over HTTP.

use std::{collections::BTreeMap, path::Path, process::Stdio, time::Duration};

use omoi_protocol::launch::McpServer;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

use super::Mcp;

const SERVER: &str = include_str!("server.py");
const LONG: Duration = Duration::from_secs(30);

fn python(code: &str) -> McpServer {
    let args = vec!["-c".to_owned(), code.to_owned()];
    let env = BTreeMap::from([("FROM_SERVER".to_owned(), "b".to_owned())]);
    McpServer { command: Some("python3".to_owned()), args, env, url: None }
}

fn env() -> BTreeMap<String, String> {
    let vars =
        [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("FROM_LAUNCH", "a"), ("FROM_SERVER", "overridden")];
    BTreeMap::from(vars.map(|(name, value)| (name.to_owned(), value.to_owned())))
}

async fn start(servers: &[(&str, McpServer)]) -> (Mcp, Vec<String>) {
    start_within(LONG, servers).await
}

async fn start_within(limit: Duration, servers: &[(&str, McpServer)]) -> (Mcp, Vec<String>) {
    let servers = servers.iter().map(|(name, server)| ((*name).to_owned(), server.clone())).collect();
    let mut told = Vec::new();
    let mcp = Mcp::start_within(limit, &servers, &env(), Path::new("/"), &mut |text| told.push(text)).await;
    (mcp, told)
}

async fn call(mcp: &Mcp, name: &str, input: Value) -> Result<(String, bool), String> {
    mcp.call(name, &input, LONG).await
}

/// The server as an address, for as long as the child is held.
#[expect(clippy::disallowed_methods, reason = "a server that is not ours to start by the launch")]
async fn address() -> (Child, McpServer) {
    let mut command = Command::new("python3");
    command.args(["-c", SERVER, "http"]).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).await.unwrap();
    let url = Some(format!("http://127.0.0.1:{}/mcp", port.trim()));
    (child, McpServer { url, ..McpServer::default() })
}

#[tokio::test]
async fn tools_of_a_program_are_offered_and_called() {
    let (mcp, told) = start(&[("my server", python(SERVER))]).await;
    assert_eq!(told, [""; 0]);
    let specs = mcp.specs();
    let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let all = ["echo", "fail", "where", "never", "linger", "leave"];
    assert_eq!(names, all.map(|tool| format!("mcp__my_server__{tool}")));
    assert_eq!(specs[0].description, "says it again");
    assert_eq!(specs[0].input_schema["properties"]["text"]["type"], "string");

    let text = "Grüße\nä".repeat(100_000);
    let echoed = call(&mcp, "mcp__my_server__echo", json!({ "text": text })).await;
    assert_eq!(echoed, Ok((text, false)));
    let failed = call(&mcp, "mcp__my_server__fail", json!({})).await;
    assert_eq!(failed, Ok(("it went wrong".to_owned(), true)));
    let unknown = call(&mcp, "mcp__my_server__nothing", json!({})).await.unwrap_err();
    assert!(unknown.contains("no tool mcp__my_server__nothing"), "{unknown}");

    let (place, _) = call(&mcp, "mcp__my_server__where", json!({})).await.unwrap();
    let place: Value = serde_json::from_str(&place).unwrap();
    assert_eq!(place["cwd"], "/");
    assert_eq!((&place["env"]["FROM_LAUNCH"], &place["env"]["FROM_SERVER"]), (&json!("a"), &json!("b")));
    assert_eq!(place["env"].get("CARGO_PKG_NAME"), None, "only what it is given");
    assert_eq!(
        place["said"],
        json!([{ "jsonrpc": "2.0", "id": "p1", "result": {} }]),
        "the answer to its ping"
    );
}

#[tokio::test]
async fn calls_run_side_by_side_and_one_that_takes_too_long_is_taken_back() {
    let (mcp, _) = start(&[("s", python(SERVER))]).await;
    let short = Duration::from_millis(200);
    let input = json!({});
    let (never, echoed) = tokio::join!(
        mcp.call("mcp__s__never", &input, short),
        call(&mcp, "mcp__s__echo", json!({ "text": "x" }))
    );
    assert_eq!(never, Err("MCP server s gave no result of never: it did not answer within 200ms".to_owned()));
    assert_eq!(echoed, Ok(("x".to_owned(), false)));
    let (place, _) = call(&mcp, "mcp__s__where", json!({})).await.unwrap();
    let place: Value = serde_json::from_str(&place).unwrap();
    assert!(place["said"][1].is_u64(), "the number of the question: {place}");
}

#[tokio::test]
async fn servers_that_do_not_work_are_told_of_and_left_out() {
    let none = McpServer::default();
    let missing = McpServer { command: Some("no-such-program".to_owned()), ..none.clone() };
    let nowhere = |url: &str| McpServer { url: Some(url.to_owned()), ..McpServer::default() };
    let (mcp, mut told) = start_within(
        Duration::from_secs(10),
        &[
            ("a-none", none),
            ("b-missing", missing),
            ("c-broken", python("import sys; sys.exit('I need a key')")),
            ("d-closed", nowhere("http://127.0.0.1:1/mcp")),
            ("e-bad", nowhere("ftp://x")),
            ("f-good", python(SERVER)),
            ("g-garbled", python("input(); print('{\"id\":1,\"result\":[]}', flush=True); input()")),
        ],
    )
    .await;
    told.sort();
    let expected = [
        "MCP server a-none is left out: it has neither or both of command and url",
        "MCP server b-missing is left out: cannot start \"no-such-program\": No such file or directory",
        "MCP server c-broken is left out: it has ended; it last said: I need a key",
        "MCP server d-closed is left out: it cannot be reached: ",
        "MCP server e-bad is left out: \"ftp://x\" is no address",
        "MCP server g-garbled is left out: what it says to initialize is not understood: ",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told}");
    }
    assert!(mcp.specs().iter().all(|spec| spec.name.starts_with("mcp__f-good__")));
    assert_eq!(call(&mcp, "mcp__f-good__echo", json!({ "text": "x" })).await, Ok(("x".to_owned(), false)));
}

#[tokio::test]
async fn a_server_that_never_speaks_is_given_up() {
    let limit = Duration::from_millis(300);
    let (mcp, told) = start_within(limit, &[("mute", python("import sys; sys.stdin.read()"))]).await;
    assert_eq!(told, ["MCP server mute is left out: it did not answer within 300ms"]);
    assert_eq!(mcp.specs(), []);
}

#[tokio::test]
async fn a_server_that_ends_says_so_to_every_call() {
    let (mcp, _) = start(&[("s", python(SERVER))]).await;
    for _ in 0..2 {
        let error = call(&mcp, "mcp__s__leave", json!({})).await.unwrap_err();
        assert!(error.starts_with("MCP server s gave no result of leave: it has ended"), "{error}");
        assert!(error.ends_with("I have had enough"), "{error}");
    }
}

#[tokio::test]
async fn everything_a_server_has_started_ends_with_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mcp, _) = start(&[("s", python(SERVER))]).await;
    let port = listener.local_addr().unwrap().port();
    call(&mcp, "mcp__s__linger", json!({ "port": port })).await.unwrap();
    let (mut lingering, _) = listener.accept().await.unwrap();
    drop(mcp);
    assert_eq!(lingering.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn tools_of_an_address_are_offered_and_called() {
    let (_child, server) = address().await;
    let (mcp, told) = start(&[("web", server)]).await;
    assert_eq!((told, mcp.specs().len()), (vec![], 6));
    let echoed = call(&mcp, "mcp__web__echo", json!({ "text": "Grüße" })).await;
    assert_eq!(echoed, Ok(("Grüße".to_owned(), false)));
    let (place, _) = call(&mcp, "mcp__web__where", json!({})).await.unwrap();
    let place: Value = serde_json::from_str(&place).unwrap();
    assert_eq!(
        place["said"][0],
        json!({ "jsonrpc": "2.0", "id": "p1", "result": {} }),
        "the answer to its ping"
    );
    let never = mcp.call("mcp__web__never", &json!({}), Duration::from_millis(200)).await;
    assert_eq!(
        never,
        Err("MCP server web gave no result of never: it did not answer within 200ms".to_owned())
    );
    let (place, _) = call(&mcp, "mcp__web__where", json!({ "after_cancel": true })).await.unwrap();
    let place: Value = serde_json::from_str(&place).unwrap();
    assert!(
        place["said"].as_array().unwrap().iter().any(Value::is_u64),
        "the number of the question: {place}"
    );
}

#[tokio::test]
async fn an_address_that_has_forgotten_the_session_is_asked_for_a_new_one() {
    let (_child, server) = address().await;
    let (mcp, _) = start(&[("web", server)]).await;
    assert_eq!(call(&mcp, "mcp__web__leave", json!({})).await, Ok(("session-2".to_owned(), false)));
}

/// The loop may run on any thread.
#[test]
fn a_call_can_be_moved_between_threads() {
    fn movable(_: impl Send) {}
    let (mcp, servers) = (Mcp::default(), BTreeMap::new());
    movable(mcp.call("x", &Value::Null, LONG));
    movable(Mcp::start(&servers, &BTreeMap::new(), Path::new("/"), &mut |_| {}));
}
