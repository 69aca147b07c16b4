//! A live reader that comes back with its last position whenever the stream breaks off.

use std::collections::HashMap;

use serde_json::Value;

use crate::writer::{Up, data};

/// The sandbox that is attached when there is no more to come.
pub const LAST: &str = "sbx-the-end";

pub struct Reader {
    http: reqwest::Client,
    url: String,
    token: String,
    /// The last one seen: positions are 1, 2, 3, …
    position: i64,
    /// How many events of each sandbox it has seen.
    pub seen: HashMap<String, i64>,
    pub connections: u32,
}

impl Reader {
    pub fn new(http: &reqwest::Client, url: &str, token: &str) -> Self {
        Self {
            http: http.clone(),
            url: url.to_owned(),
            token: token.to_owned(),
            position: 0,
            seen: HashMap::new(),
            connections: 0,
        }
    }

    /// Reads everything to the end. Whatever is missing, twice or out of order is an error at once.
    pub async fn run(mut self, mut up: Up) -> Self {
        loop {
            if self.follow().await {
                return self;
            }
            up.wait_for(|up| *up).await.expect("there is always a next server");
            tokio::task::yield_now().await;
        }
    }

    /// Reads one stream to its end; whether that was the end of all.
    async fn follow(&mut self) -> bool {
        let url = format!("{}/api/v1/stream?since=0", self.url);
        let mut request = self.http.get(url).bearer_auth(&self.token);
        if self.position > 0 {
            request = request.header("last-event-id", self.position);
        }
        let Ok(mut stream) = request.send().await else { return false };
        if stream.status() == 503 {
            return false;
        }
        assert_eq!(stream.status(), 200, "at position {}", self.position);
        self.connections += 1;
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = stream.chunk().await {
            bytes.extend_from_slice(&chunk);
            // A frame ends with an empty line; what broke off before it was not sent.
            while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = bytes.drain(..end + 2).collect();
                let Some(event) = parse(std::str::from_utf8(&frame).unwrap()) else { continue };
                self.see(&event);
                if event["entity_id"] == LAST {
                    return true;
                }
            }
        }
        false
    }

    fn see(&mut self, event: &Value) {
        let position = event["position"].as_i64().unwrap();
        assert_eq!(position, self.position + 1, "after {}: {event}", self.position);
        self.position = position;
        let Some(seq) = event["seq"].as_i64() else { return };
        let sandbox = event["entity_id"].as_str().unwrap();
        let seen = self.seen.entry(sandbox.to_owned()).or_default();
        assert_eq!(seq, *seen + 1, "{event}");
        for (field, value) in data(sandbox, seq).as_object().unwrap() {
            assert_eq!(&event["payload"][field], value, "{event}");
        }
        *seen = seq;
    }
}

/// The event of a frame; those that are named, and comments, hold none.
pub fn parse(frame: &str) -> Option<Value> {
    let line = |field: &str| frame.lines().find_map(|line| line.strip_prefix(field));
    if line("event: ").is_some() {
        return None;
    }
    let event: Value = serde_json::from_str(line("data: ")?).unwrap();
    assert_eq!(line("id: "), Some(event["position"].to_string().as_str()));
    Some(event)
}
