//! A worker as the protocol asks for: it numbers its events and sends each until it is acknowledged.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Whether there is a server; whoever finds none waits for the next.
pub type Up = watch::Receiver<bool>;

pub struct Writer {
    pub sandbox: String,
    pub token: String,
    pub url: String,
    pub http: reqwest::Client,
    /// Events that the server has acknowledged: 1 to this.
    pub acknowledged: i64,
    /// The last event that any attempt has sent: it may be stored, although nobody has said so.
    sent: i64,
    seed: u64,
}

impl Writer {
    pub fn new(http: &reqwest::Client, url: &str, attached: &Value, seed: u64) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            sandbox: text(&attached["sandbox"]["id"]),
            token: text(&attached["token"]),
            url: url.to_owned(),
            http: http.clone(),
            acknowledged: 0,
            sent: 0,
            seed,
        }
    }

    /// Writes until told to stop, and then whatever it has begun; tells of every acknowledgement.
    pub async fn run(mut self, mut up: Up, stop: watch::Receiver<bool>, told: watch::Sender<u64>) -> Self {
        while !*stop.borrow() || self.acknowledged < self.sent {
            let count = self.write(&mut up).await;
            told.send_modify(|total| *total += count);
        }
        self
    }

    /// One acknowledged batch of 1 to 5 events; says how many. A repeat may bring more or fewer than the attempt that
    /// broke off, so the server meets batches of which it knows a part.
    async fn write(&mut self, up: &mut Up) -> u64 {
        loop {
            let first = self.acknowledged + 1;
            let last = first + self.random(5) as i64;
            self.sent = self.sent.max(last);
            let events: Vec<Value> = (first..=last).map(|n| event(&self.sandbox, n)).collect();
            let url = format!("{}/api/v1/sandboxes/{}/events", self.url, self.sandbox);
            let sent =
                self.http.post(url).bearer_auth(&self.token).json(&json!({ "events": events })).send().await;
            let Ok(response) = sent else {
                wait(up).await;
                continue;
            };
            let status = response.status();
            // An answer that broke off acknowledges nothing.
            let Ok(answer) = response.json::<Value>().await else {
                wait(up).await;
                continue;
            };
            match status {
                StatusCode::OK => {
                    self.check(first, last, &answer);
                    self.acknowledged = last;
                    return (last - first + 1) as u64;
                }
                // Not now, it says; the waits between are its own.
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => wait(up).await,
                _ => panic!("{} after {}: {status} {answer}", self.sandbox, self.acknowledged),
            }
        }
    }

    /// Nobody else writes to the sandbox, so the server's numbers are the worker's.
    fn check(&self, first: i64, last: i64, answer: &Value) {
        let seqs: Vec<i64> =
            answer["events"].as_array().unwrap().iter().map(|e| e["seq"].as_i64().unwrap()).collect();
        assert_eq!(seqs, (first..=last).collect::<Vec<_>>(), "{}: {answer}", self.sandbox);
    }

    /// Below `end`, by a rule of its own.
    fn random(&mut self, end: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % end
    }
}

async fn wait(up: &mut Up) {
    up.wait_for(|up| *up).await.expect("there is always a next server");
    // What is up may still refuse; others may go first.
    tokio::task::yield_now().await;
}

pub fn event(sandbox: &str, n: i64) -> Value {
    json!({ "event_type": "agent.message", "source": "worker", "worker_seq": n, "event_data": data(sandbox, n) })
}

/// What event `n` of a sandbox says: enough to tell it from every other.
pub fn data(sandbox: &str, n: i64) -> Value {
    json!({ "n": n, "of": sandbox, "content": "x".repeat((n % 97) as usize) })
}
