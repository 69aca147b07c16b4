//! `omoi spec export` and `import`: specs as files that people know.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use omoi_client::Client;
use omoi_protocol::{
    SpecId,
    spec::{ImportSpec, SpecDetail, SpecLayout},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{Context, project};

/// What the server takes in one request by default.
const BYTES_MAX: u64 = 8 * 1024 * 1024;
/// As the server says it of a repository that it is about to fetch; how long that may take, and how often it is asked.
const NOT_FETCHED: &str = "repository_not_fetched";
const FETCH_MAX: Duration = Duration::from_secs(5 * 60);
const PAUSE: Duration = Duration::from_secs(1);
const NAMES: [&str; 6] = ["requirements.md", "design.md", "tasks.md", "spec.md", "plan.md", "omoi.json"];

/// Write what stands of a spec into files
#[derive(Debug, clap::Args)]
pub struct Export {
    id: SpecId,
    /// json is one document; kiro and spec-kit are folders of Markdown
    #[arg(long, default_value = "json", value_parser = layout)]
    layout: SpecLayout,
    /// The directory to write to, such as the root of a repository
    #[arg(long, value_name = "DIR", default_value = ".")]
    to: PathBuf,
}

impl Export {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let files = client.spec_export(&self.id, self.layout).await?.files;
        let mut written = Vec::new();
        for (name, text) in &files {
            let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            if !plain {
                bail!("the server names {name:?}, which does not lie below {}", self.to.display());
            }
            let path = self.to.join(name);
            let cannot = || format!("cannot write {}", path.display());
            path.parent().map_or(Ok(()), fs::create_dir_all).with_context(cannot)?;
            fs::write(&path, text).with_context(cannot)?;
            written.push(path.display().to_string());
        }
        cx.out.answer(&json!({ "files": written }), |_| written.join("\n"))
    }
}

/// Take in a spec that was written elsewhere
#[derive(Debug, clap::Args)]
pub struct Import {
    /// A folder of Markdown in the layout of Kiro or of spec-kit, or a JSON document
    path: PathBuf,
    /// The project it is for, by id or name
    #[arg(long, value_name = "PROJECT")]
    project: String,
    /// In the place of the title that the files tell
    #[arg(long)]
    title: Option<String>,
}

impl Import {
    pub async fn run(self, client: &Client) -> Result<SpecDetail> {
        let project_id = project::find(client, &self.project).await?.id;
        let files = read(&self.path)?;
        fetched(client, &ImportSpec { project_id, title: self.title, files }).await
    }
}

/// Comes back while the server has yet to fetch the repository.
async fn fetched(client: &Client, spec: &ImportSpec) -> Result<SpecDetail> {
    let give_up = Instant::now() + FETCH_MAX;
    loop {
        match client.spec_import(spec).await {
            Err(error) if error.code() == Some(NOT_FETCHED) && Instant::now() < give_up => sleep(PAUSE).await,
            done => return Ok(done?),
        }
    }
}

/// The files of a spec, by the names they have in its folder.
fn read(path: &Path) -> Result<BTreeMap<String, String>> {
    let path = fs::canonicalize(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let found: Vec<(String, PathBuf)> = if path.is_dir() {
        let there = NAMES.iter().map(|file| (format!("{name}/{file}"), path.join(file)));
        there.filter(|(_, path)| path.is_file()).collect()
    } else {
        vec![(name, path.clone())]
    };
    if found.is_empty() {
        bail!("{} holds none of {}", path.display(), NAMES.join(", "));
    }
    let mut bytes = 0;
    let mut files = BTreeMap::new();
    for (name, path) in found {
        let cannot = || format!("cannot read {}", path.display());
        bytes += fs::metadata(&path).with_context(cannot)?.len();
        if bytes > BYTES_MAX {
            bail!("the files have more than {BYTES_MAX} bytes, which is more than is taken at once");
        }
        files.insert(name, fs::read_to_string(&path).with_context(cannot)?);
    }
    Ok(files)
}

fn layout(word: &str) -> Result<SpecLayout, String> {
    match word {
        "json" => Ok(SpecLayout::Json),
        "kiro" => Ok(SpecLayout::Kiro),
        "spec-kit" | "spec_kit" => Ok(SpecLayout::SpecKit),
        other => Err(format!("{other:?} is no layout; there are json, kiro and spec-kit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_by_the_names_that_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("csv-export");
        fs::create_dir(&folder).unwrap();
        assert!(read(&folder).unwrap_err().to_string().contains("requirements.md"));
        for name in ["requirements.md", "tasks.md", "notes.txt"] {
            fs::write(folder.join(name), name).unwrap();
        }
        let files: Vec<String> = read(&folder).unwrap().into_keys().collect();
        assert_eq!(files, ["csv-export/requirements.md", "csv-export/tasks.md"]);
        fs::write(dir.path().join("spec.json"), "{}").unwrap();
        assert_eq!(read(&dir.path().join("spec.json")).unwrap()["spec.json"], "{}");
    }
}
