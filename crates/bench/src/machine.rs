//! The machine a run was made on.

use std::{
    fs::File,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::{bench::Bench, sample::EVENT_BYTES};

#[derive(Debug, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub cpu: String,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Before anything was started: a machine that is not quiet says less.
    pub load_average: f64,
    pub fdatasync_per_second: f64,
    pub open_files_max: u64,
    pub postgres: Option<String>,
}

impl Machine {
    pub async fn look(bench: &Bench) -> anyhow::Result<Self> {
        let first = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let load = first("/proc/loadavg");
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            cpu: value_of(&first("/proc/cpuinfo"), "model name"),
            memory_bytes: value_of(&first("/proc/meminfo"), "MemTotal")
                .trim_end_matches(" kB")
                .parse::<u64>()
                .map_or(0, |kib| kib * 1024),
            kernel: first("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_average: load.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0),
            fdatasync_per_second: fdatasync_rate(bench.dir(), bench.scale.measure)?,
            open_files_max: raise_open_files(),
            postgres: match &bench.postgres {
                Some(postgres) => Some(postgres.version().await?),
                None => None,
            },
        })
    }

    pub fn lines(&self) -> String {
        format!(
            "{} cores ({}), {:.0} GB memory, Linux {}, load {:.2}\n{:.0} fdatasync/s after {EVENT_BYTES} bytes each, \
             {} open files, {}",
            self.cores,
            self.cpu,
            self.memory_bytes as f64 / 1e9,
            self.kernel,
            self.load_average,
            self.fdatasync_per_second,
            self.open_files_max,
            self.postgres.as_deref().unwrap_or("no PostgreSQL"),
        )
    }
}

fn value_of(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'));
    line.unwrap_or("unknown").trim().to_owned()
}

/// One small append after the other, each waited for.
fn fdatasync_rate(dir: &Path, how_long: Duration) -> anyhow::Result<f64> {
    let path = dir.join("fdatasync");
    let mut file = File::create(&path)?;
    let (began, mut count) = (Instant::now(), 0u32);
    while began.elapsed() < how_long {
        file.write_all(&[b'x'; EVENT_BYTES])?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / began.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// As many as allowed: a thousand viewers are a thousand files on both ends. Children inherit it.
fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
