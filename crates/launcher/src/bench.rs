//! `omoi-launcher bench`: how long it takes from asking for a sandbox to the first byte that its command writes, beside what
//! the kernel takes for the namespaces alone.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use omoi_launcher::{Answer, Directory, Layer, Plan};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use serde::Serialize;

use crate::refuse::{OrRefuse as _, Result, refusal};
use crate::{probe, remove, run, sys};

const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(30);

/// Milliseconds.
#[derive(Debug, Serialize)]
pub struct Measured {
    count: usize,
    sandbox: Times,
    sandbox_without_disk_image: Times,
    namespaces_alone: Times,
}

#[derive(Debug, Serialize)]
struct Times {
    min: f64,
    median: f64,
    max: f64,
}

pub fn bench(cache: &Path, count: usize) -> Result<Measured> {
    let each = |measure: &dyn Fn(usize) -> Result<Duration>| -> Result<Times> {
        let mut times = (0..count.max(1)).map(measure).collect::<Result<Vec<_>>>()?;
        times.sort();
        let millis = |index: usize| times[index].as_secs_f64() * 1000.0;
        Ok(Times { min: millis(0), median: millis(times.len() / 2), max: millis(times.len() - 1) })
    };
    // The first one also makes the skeleton of the host's image.
    sandbox(cache, count, &[])?;
    Ok(Measured {
        count,
        sandbox: each(&|index| sandbox(cache, index, &[]))?,
        sandbox_without_disk_image: each(&|index| sandbox(cache, index, &[Layer::DiskCap]))?,
        namespaces_alone: each(&|_| namespaces())?,
    })
}

/// A start counts when the first byte has arrived that the sandboxed command wrote.
fn sandbox(cache: &Path, index: usize, deny: &[Layer]) -> Result<Duration> {
    let dir = cache.join(format!("bench-{}-{index}", std::process::id()));
    fs::create_dir_all(&dir).or_broken(Layer::Directory, format_args!("make {}", dir.display()))?;
    let argv = ["/bin/sh", "-c", "echo x"].map(str::to_owned).to_vec();
    let plan = Plan { argv, deny: deny.to_vec(), ..probe::plan(cache, &dir) };
    let begun = Instant::now();
    let measured = match run::run(plan) {
        Answer::Started(_) => first_byte(&Directory::new(&dir).log(), begun),
        Answer::Exists(_) => {
            Err(refusal(Layer::Directory, "somebody uses the directory", "name another with --cache"))
        }
        Answer::Refused(refused) => Err(refused),
    };
    remove::remove(&dir)?;
    measured
}

fn first_byte(log: &Path, begun: Instant) -> Result<Duration> {
    let mut log = fs::File::open(log).or_broken(Layer::Directory, "open the log")?;
    while log.read(&mut [0]).or_broken(Layer::Directory, "read the log")? == 0 {
        if begun.elapsed() > FIRST_BYTE_WITHIN {
            return Err(refusal(
                Layer::Command,
                "the command writes nothing",
                "see whether the machine is overloaded",
            ));
        }
        crate::pause(Duration::from_micros(50));
    }
    Ok(begun.elapsed())
}

fn namespaces() -> Result<Duration> {
    let begun = Instant::now();
    match sys::clone_into(sys::NAMESPACES, None).map_err(|error| probe::diagnose(&error))? {
        None => sys::exit_now(0),
        Some(child) => {
            waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)
                .or_broken(Layer::PidNamespace, "wait")?;
            Ok(begun.elapsed())
        }
    }
}
