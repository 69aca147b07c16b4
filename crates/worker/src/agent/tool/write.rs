//! The tool Write: a file as a whole.

use serde_json::json;

use super::{
    file::{self, FILE_BYTES_MAX},
    input::{self, Input},
    reach::Reach,
    seen::Seen,
    tools::Done,
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Input(#[from] input::Error),
    #[error(transparent)]
    File(#[from] file::Error),
}

pub fn run(reach: &Reach, seen: &Seen, input: &Input<'_>) -> Result<Done, Error> {
    let path = input.path("file_path")?;
    let content = input.text("content")?;
    input.bounded(
        "content",
        content,
        FILE_BYTES_MAX as usize,
        "write it in parts, or make it with a command",
    )?;
    let target = reach.target(path).map_err(file::Error::from)?;
    let kind = match &target.existing {
        Some(place) => {
            let hint = "it is too big for Write; change it with a command";
            file::check_seen(path, place, &file::read_whole(path, place, hint)?, seen)?;
            "update"
        }
        None => "create",
    };
    let (real, lines) = (target.real.clone(), content.lines().count());
    file::put(path, target, content.as_bytes(), seen)?;
    let word = if kind == "create" { "created" } else { "replaced" };
    let text = format!("{word} {} ({lines} lines)", reach.shown(&real));
    Ok(Done::good(text, json!({ "type": kind, "file_path": real, "bytes": content.len(), "lines": lines })))
}
