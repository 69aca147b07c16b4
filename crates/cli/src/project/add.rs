//! A project from its repository: an address, or a directory of this machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::project::{NewProject, Project, ProjectPatch};
use omoi_server::domain::repository::Remote;
use serde_json::{Map, Value, json};

use super::{all, by_name, show};
use crate::{
    Context,
    failure::{FAILED, NOT_FOUND, Stop, USAGE},
    text::parse_usd,
};

const DEFAULT_BRANCH: &str = "main";
const HEAD_BYTES_MAX: u64 = 4096;

/// Add a project from its repository
///
/// A directory of this machine is meant for a server on the same machine, which fetches from it and never writes to it.
/// The project is called after the repository, unless a name is given.
#[derive(Debug, clap::Args)]
pub struct Add {
    /// The repository: https://…, ssh://…, user@host:path, or a directory
    #[arg(value_name = "URL_OR_PATH")]
    source: String,
    /// What people call it
    #[arg(long)]
    name: Option<String>,
    /// The branch that work starts from; of a directory, the one that is checked out
    #[arg(long, value_name = "BRANCH")]
    default_branch: Option<String>,
    /// A host that its sandboxes may connect to, such as crates.io or *.crates.io; may be given more than once
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// What its model calls may cost, in dollars
    #[arg(long, value_name = "USD", value_parser = parse_usd)]
    budget_usd: Option<f64>,
}

impl Add {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let source = Source::find(&self.source)?;
        let new = NewProject {
            name: self.name.clone().unwrap_or_else(|| source.name()),
            description: String::new(),
            repository_url: Some(source.url()),
            default_branch: self.default_branch(&source)?,
            max_concurrent: None,
            settings: self.settings(),
        };
        let project = match client.project_create(&new).await {
            Err(error) if error.code() == Some("project_exists") => self.bring_back(client, &new).await?,
            created => created?,
        };
        cx.out.answer(&project, |_| show(&project))
    }

    fn default_branch(&self, source: &Source) -> Result<String, Stop> {
        match (&self.default_branch, source) {
            (Some(branch), _) => Ok(branch.clone()),
            (None, Source::Url(_)) => Ok(DEFAULT_BRANCH.to_owned()),
            (None, Source::Directory(path)) => head(path).ok_or_else(|| {
                Stop::new(USAGE, format!("no branch is checked out in {}", path.display()))
                    .hint("name the one that work starts from with --default-branch")
            }),
        }
    }

    fn settings(&self) -> Map<String, Value> {
        let mut settings = Map::new();
        if !self.allow_host.is_empty() {
            settings.insert("egress_allow".to_owned(), json!(self.allow_host));
        }
        if let Some(usd) = self.budget_usd {
            settings.insert("budget_usd".to_owned(), json!(usd));
        }
        settings
    }

    /// One that was removed and is added again has its history back.
    async fn bring_back(&self, client: &Client, new: &NewProject) -> Result<Project> {
        let taken = || {
            Stop::new(FAILED, format!("there is a project named {:?} already", new.name))
                .hint("give this one another name with --name")
        };
        let old = by_name(client, &new.name).await?.ok_or_else(taken)?;
        if !old.archived || old.repository_url != new.repository_url {
            return Err(taken().into());
        }
        let mut settings = old.settings;
        settings.extend(new.settings.clone());
        let patch = ProjectPatch {
            archived: Some(false),
            default_branch: Some(new.default_branch.clone()),
            settings: Some(settings),
            ..ProjectPatch::default()
        };
        Ok(client.project_patch(&old.id, &patch).await?)
    }
}

/// How often a name is taken by another repository before nobody looks for a free one.
const NAMESAKES_MAX: usize = 20;

/// The project of a directory, which is added if there is none; and the branch that is checked out there.
pub async fn of_directory(client: &Client, path: &Path) -> Result<(Project, Option<String>)> {
    let path = fs::canonicalize(path).map_err(|error| {
        Stop::new(NOT_FOUND, format!("{}: {error}", path.display()))
            .hint("give the directory of a Git repository")
    })?;
    let root = path.ancestors().find(|path| git_dir(path).is_some());
    let source = Source::find(&root.unwrap_or(&path).display().to_string())?;
    let (url, branch) = (source.url(), root.and_then(head));
    let known = all(client)
        .await?
        .into_iter()
        .find(|project| !project.archived && project.repository_url.as_ref() == Some(&url));
    if let Some(project) = known {
        return Ok((project, branch));
    }
    let default_branch = branch.clone().ok_or_else(|| {
        Stop::new(USAGE, format!("no branch is checked out in {url}"))
            .hint("check one out, or add the project yourself with `omoi project add --default-branch`")
    })?;
    let name = source.name();
    let names = std::iter::once(name.clone()).chain((2..=NAMESAKES_MAX).map(|n| format!("{name}-{n}")));
    for name in names {
        let new = NewProject {
            name,
            description: String::new(),
            repository_url: Some(url.clone()),
            default_branch: default_branch.clone(),
            max_concurrent: None,
            settings: Map::new(),
        };
        match client.project_create(&new).await {
            Err(error) if error.code() == Some("project_exists") => {}
            created => return Ok((created?, branch)),
        }
    }
    let taken =
        Stop::new(FAILED, format!("projects named {name:?} and like it belong to other repositories"));
    Err(taken.hint("add this one under a name of its own with `omoi project add --name`").into())
}

#[derive(Debug, PartialEq, Eq)]
enum Source {
    Url(String),
    /// Absolute.
    Directory(PathBuf),
}

impl Source {
    fn find(text: &str) -> Result<Self, Stop> {
        if is_url(text) && !Path::new(text).is_dir() {
            return match Remote::parse(text) {
                Ok(remote) => Ok(Self::Url(remote.address)),
                // What it says of a password does not repeat it.
                Err(error) => Err(Stop::new(USAGE, error.to_string())
                    .hint("the server takes a token for https from GITHUB_TOKEN, and keys of SSH from the user that runs it")),
            };
        }
        let absent = |detail: String| {
            Stop::new(NOT_FOUND, detail)
                .hint("give the directory of a Git repository, or an address such as https://…")
        };
        let path = fs::canonicalize(text).map_err(|error| absent(format!("{text:?}: {error}")))?;
        match git_dir(&path) {
            Some(_) => Ok(Self::Directory(path)),
            None => Err(absent(format!("{} is no Git repository", path.display()))),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Url(url) => url.clone(),
            Self::Directory(path) => path.display().to_string(),
        }
    }

    fn name(&self) -> String {
        let url = self.url();
        let path = url.trim_end_matches('/').trim_end_matches("/.git");
        let last = path.rsplit(['/', ':']).next().unwrap_or(path);
        last.strip_suffix(".git").unwrap_or(last).to_owned()
    }
}

/// A scheme, or a colon before the first slash as Git has it.
fn is_url(text: &str) -> bool {
    text.contains("://") || text.split('/').next().is_some_and(|first| first.contains(':'))
}

/// Where a repository keeps what is its own: beside a work tree, in a file that names it, or right there.
fn git_dir(path: &Path) -> Option<PathBuf> {
    let beside = path.join(".git");
    if beside.is_dir() {
        return Some(beside);
    }
    if let Some(text) = read(&beside) {
        return Some(path.join(text.strip_prefix("gitdir:")?.trim()));
    }
    (path.join("HEAD").is_file() && path.join("objects").is_dir()).then(|| path.to_owned())
}

/// The branch that is checked out.
fn head(path: &Path) -> Option<String> {
    let text = read(&git_dir(path)?.join("HEAD"))?;
    let branch = text.strip_prefix("ref:")?.trim().strip_prefix("refs/heads/")?;
    (!branch.is_empty()).then(|| branch.to_owned())
}

fn read(path: &Path) -> Option<String> {
    let data = fs::metadata(path).ok()?;
    (data.is_file() && data.len() <= HEAD_BYTES_MAX).then(|| fs::read_to_string(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_directories_are_told_apart() {
        for (text, url) in [
            ("https://example.org/shop.git", true),
            ("git@example.org:team/shop.git", true),
            ("host:shop", true),
            ("/srv/shop", false),
            ("./a:b", false),
            ("shop", false),
        ] {
            assert_eq!(is_url(text), url, "{text}");
        }
    }

    #[test]
    fn an_address_with_a_secret_is_refused_and_not_repeated() {
        for url in ["https://me:secret@example.org/shop", "https://secret@example.org/shop"] {
            let refused = Source::find(url).unwrap_err().to_string();
            assert!(refused.contains("take it out") && !refused.contains("secret"), "{refused}");
        }
        for url in ["ssh://git@example.org:22/shop", "git@example.org:shop", "https://example.org/shop"] {
            assert_eq!(Source::find(url).unwrap(), Source::Url(url.to_owned()));
        }
    }

    #[test]
    fn a_project_is_called_after_its_repository() {
        for (url, name) in [
            ("https://example.org/team/shop.git", "shop"),
            ("https://example.org/team/shop/", "shop"),
            ("git@example.org:shop.git", "shop"),
        ] {
            assert_eq!(Source::Url(url.to_owned()).name(), name);
        }
        assert_eq!(Source::Directory("/srv/shop".into()).name(), "shop");
    }

    #[test]
    fn the_branch_is_read_from_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, bare) = (dir.path().join("tree"), dir.path().join("bare"));
        fs::create_dir_all(tree.join(".git")).unwrap();
        fs::create_dir_all(bare.join("objects")).unwrap();
        assert_eq!((git_dir(dir.path()), git_dir(&bare)), (None, None));
        for (text, branch) in [
            ("ref: refs/heads/feature/x\n", Some("feature/x")),
            ("0123456789012345678901234567890123456789\n", None),
            ("ref: refs/heads/\n", None),
        ] {
            fs::write(tree.join(".git/HEAD"), text).unwrap();
            fs::write(bare.join("HEAD"), text).unwrap();
            assert_eq!(head(&tree).as_deref(), branch, "{text}");
            assert_eq!(head(&bare).as_deref(), branch, "{text}");
        }
        let linked = dir.path().join("linked");
        fs::create_dir(&linked).unwrap();
        fs::write(linked.join(".git"), "gitdir: ../tree/.git\n").unwrap();
        fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(head(&linked).as_deref(), Some("main"));
    }

    #[test]
    fn amounts_are_dollars_and_nothing_below_zero() {
        assert_eq!((parse_usd("20"), parse_usd("$0.5")), (Ok(20.0), Ok(0.5)));
        for bad in ["", "-1", "many", "inf", "NaN"] {
            assert!(parse_usd(bad).is_err(), "{bad}");
        }
    }
}
