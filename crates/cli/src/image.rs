//! `omoi image`: the file systems that sandboxes on this machine see.

use std::path::PathBuf;

use anyhow::Result;
use omoi_server::{
    clock::Clock,
    sandbox::image::{self, Image, Images, Limits},
};

use crate::{
    Context,
    failure::{FAILED, NOT_FOUND, Stop, USAGE},
    settings::Settings,
    table::{Table, fields, maybe, number},
    text::{relative, size},
};

const EXAMPLES: &str = "\
Examples:
  docker save debian:12 | gzip > debian.tar.gz && omoi image import debian debian.tar.gz
  debootstrap --variant=minbase bookworm tree && omoi image import bookworm tree
  omoi sandbox create --project shop --image bookworm -- make test
  omoi image remove bookworm

These work on the data directory of this machine, with or without a running server. Nothing in an archive is believed:
paths stay inside the image, digests are checked, devices are left out and setuid bits dropped. Without an image a sandbox
sees the system directories of its machine, read-only.";

/// Import, list and remove images
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make an image of a directory, a tar archive, or an OCI or Docker image
    Import {
        /// What sandboxes are to call it
        name: String,
        /// A directory, .tar, .tar.gz or .tar.zst with the files; or an OCI layout, as a directory or an archive, or what
        /// `docker save` and `podman save` write
        source: PathBuf,
        /// How large it may be unpacked, in GiB
        #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
        max_gb: u32,
    },
    /// List images
    List,
    /// Remove an image that no running sandbox uses
    Remove {
        /// As `omoi image list` shows it
        name: String,
    },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let config = self.settings.resolve(cx)?.config;
        let images = Images::new(&config.data_dir);
        match self.verb {
            Verb::Import { name, source, max_gb } => {
                omoi_server::data_dir::make(&config)?;
                let limits = Limits { bytes_max: u64::from(max_gb) << 30, ..Limits::default() };
                let work = move || images.import(&name, &source, limits, Clock::Real.now());
                let image = blocking(work).await?;
                cx.out.answer(&image, |_| show(&image))
            }
            Verb::List => {
                let images = blocking(move || images.list()).await?;
                cx.out.answer(&images, |style| {
                    let header = ["name", "size", "files", "imported", "source"];
                    images.iter().fold(Table::new(style, &header), row).render()
                })?;
                if images.is_empty() && !cx.out.is_json() {
                    cx.out.note("no images; sandboxes see the system directories of this machine, read-only");
                }
                Ok(())
            }
            Verb::Remove { name } => {
                let image = blocking(move || images.remove(&name)).await?;
                cx.out.answer(&image, |_| format!("removed {} ({})", image.name, size(image.bytes)))
            }
        }
    }
}

/// Reading an archive takes its time, and an image is made whole or not at all.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, image::Error> + Send + 'static,
) -> Result<T> {
    Ok(tokio::task::spawn_blocking(work).await?.map_err(stop)?)
}

fn stop(error: image::Error) -> Stop {
    use image::Error;
    let code = match &error {
        Error::Name(_) => USAGE,
        Error::Absent(_) => NOT_FOUND,
        Error::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => FAILED,
    };
    let hint = match &error {
        Error::Used { .. } | Error::Untold { .. } => {
            Some("`omoi sandbox terminate ID --wait` ends a sandbox and keeps its work")
        }
        Error::TooLarge { .. } => Some("--max-gb allows more"),
        _ => None,
    };
    let stop = Stop::new(code, error.to_string());
    match hint {
        Some(hint) => stop.hint(hint),
        None => stop,
    }
}

fn row(table: Table, image: &Image) -> Table {
    table.row([
        image.name.as_str().into(),
        number(&size(image.bytes)),
        number(&image.files),
        maybe(image.imported_at.map(|at| relative(Clock::Real.now(), at))),
        if image.imported_at.is_some() { image.source.as_str().into() } else { "put there by hand".into() },
    ])
}

fn show(image: &Image) -> String {
    let left_out = match image.skipped {
        0 => None,
        n => Some(format!("{n} devices, pipes or sockets")),
    };
    fields([
        ("name", Some(image.name.clone())),
        ("size", Some(size(image.bytes))),
        ("files", Some(image.files.to_string())),
        ("left out", left_out),
        ("digest", image.digest.clone()),
        ("source", Some(image.source.clone())),
    ])
}
