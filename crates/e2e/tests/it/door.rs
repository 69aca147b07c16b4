//! What programs in a sandbox show of the token, and to whom.

use omoi_protocol::{
    ProviderKind,
    launch::{Door, LaunchSpec, SandboxToken},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::Command,
};

/// Hears one request, refuses it, and gives its lines.
async fn hear(listener: &TcpListener) -> Vec<String> {
    let (stream, _) = listener.accept().await.unwrap();
    let (mut lines, mut heard) = (BufReader::new(stream).lines(), Vec::new());
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.is_empty() {
            break;
        }
        heard.push(line.to_lowercase());
    }
    let stream = lines.get_mut().get_mut();
    stream
        .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    heard
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "Git is what is asked")]
async fn git_shows_the_token_at_the_door_and_nowhere_else() {
    let (door, other) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let at = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
    let launch = LaunchSpec::new(
        "sbx-1".parse().unwrap(),
        ProviderKind::Local,
        Door::new(at(&door), None),
        SandboxToken::new("omoi_sbx_sesame"),
    );
    let ask = async |url: String| {
        let mut git = Command::new("git");
        git.args(["ls-remote", &url]).env_clear().env("PATH", "/usr/bin:/bin").envs(launch.environment());
        git.output().await.unwrap()
    };
    let project = "prj-1".parse().unwrap();
    let (_, heard) = tokio::join!(ask(launch.door.git_url(&project)), hear(&door));
    assert!(heard[0].starts_with("get /git/prj-1.git/info/refs"), "{heard:?}");
    assert!(heard.contains(&"authorization: bearer omoi_sbx_sesame".to_owned()), "{heard:?}");
    for url in [format!("{}/elsewhere.git", at(&door)), format!("{}/git/prj-1.git", at(&other))] {
        let listener = if url.starts_with(&at(&door)) { &door } else { &other };
        let (_, heard) = tokio::join!(ask(url), hear(listener));
        assert!(!heard.iter().any(|line| line.contains("sesame")), "{heard:?}");
    }
}
