//! Which objects the mirror would refuse. Git itself is the judge, `git fsck` by the rules that a push is checked by, so a rule
//! that a later Git brings is met as well.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::Path,
};

use tokio::io::AsyncWriteExt;

use super::{
    Error,
    bare::Bare,
    commit::{Entries, Entry},
    tree::parts,
};
use crate::git::{Feed, Git};

const TREE: &str = "040000";
/// Said of objects that are not new: the mirror has them, and they were judged when they came there.
const ELSEWHERE: [&str; 2] = ["gitmodulesMissing", "gitattributesMissing"];
/// Names that are judged one by one; where more are in refused directories, the others count as refused with them.
const SINGLES_MAX: usize = 20_000;

/// Why an object is refused, by its id.
pub type Verdict = BTreeMap<String, String>;

/// All objects in a directory that are refused.
pub async fn objects(git: &Git) -> Result<Verdict, Error> {
    let said = git.complaints(&["fsck", "--strict", "--no-dangling", "--no-progress"]).await?;
    let said = String::from_utf8_lossy(&said).into_owned();
    // error in KIND ID: RULE: WORDS
    let line = |line: &str| {
        let (object, why) = line.strip_prefix("error in ")?.split_once(": ")?;
        let is_elsewhere = ELSEWHERE.contains(&why.split(':').next()?);
        (!is_elsewhere).then_some((object.split_once(' ')?.1.to_owned(), why.to_owned()))
    };
    Ok(said.lines().filter_map(line).collect())
}

/// The paths of `entries` that make a commit of them refused, and why.
pub async fn paths(bare: &Bare, commit: &str, entries: &Entries) -> Result<BTreeMap<Vec<u8>, String>, Error> {
    let verdict = objects(&bare.judge(&bare.new_objects())).await?;
    if verdict.is_empty() {
        return Ok(BTreeMap::new());
    }
    let listed = bare.git().bytes(&["ls-tree", "-r", "-t", "-z", commit]).await?;
    let all: Vec<(&[u8], Entry)> = parts(&listed).filter_map(listed_entry).collect();
    let refused_dirs: HashMap<&[u8], &str> = all
        .iter()
        .filter(|(_, entry)| entry.mode == TREE)
        .filter_map(|(path, entry)| Some((*path, verdict.get(&entry.id)?.as_str())))
        .collect();
    let root = bare.git().text(&["rev-parse", &format!("{commit}^{{tree}}")]).await?;
    let in_refused = |path: &[u8]| -> Option<&str> {
        match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => refused_dirs.get(&path[..slash]).copied(),
            None => verdict.get(&root).map(String::as_str),
        }
    };
    let suspects: Vec<&(&[u8], Entry)> = all.iter().filter(|(path, _)| in_refused(path).is_some()).collect();
    let bad_names = names(bare, &suspects).await?;
    let mut refused: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    let mut bad_dirs: Vec<(&[u8], String)> = Vec::new();
    for (path, entry) in &all {
        let by_name = bad_names.get(*path).cloned();
        let why = by_name.or_else(|| verdict.get(&entry.id).filter(|_| entry.mode != TREE).cloned());
        match why {
            Some(why) if entry.mode == TREE => bad_dirs.push((*path, why)),
            Some(why) => {
                refused.insert((*path).to_owned(), why);
            }
            None => {}
        }
    }
    for (dir, why) in bad_dirs {
        let below = [dir, b"/"].concat();
        let inside = entries.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
        refused.extend(inside.map(|(path, _)| (path.clone(), why.clone())));
    }
    Ok(refused)
}

/// Which names are refused, each judged in a directory of its own.
async fn names(bare: &Bare, suspects: &[&(&[u8], Entry)]) -> Result<BTreeMap<Vec<u8>, String>, Error> {
    let mut refused = BTreeMap::new();
    let (judged, beyond) = suspects.split_at(suspects.len().min(SINGLES_MAX));
    for (path, _) in beyond {
        refused.insert(
            (*path).to_owned(),
            "too many file names are refused, so this one was not checked and is set aside".to_owned(),
        );
    }
    if judged.is_empty() {
        return Ok(refused);
    }
    let git = bare.singles()?;
    let feed = async |feed: &mut Feed| {
        for (path, Entry { mode, id }) in judged {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            let kind = match mode.as_str() {
                TREE => "tree",
                super::commit::GITLINK => "commit",
                _ => "blob",
            };
            feed.write_all(format!("{mode} {kind} {id}\t").as_bytes()).await?;
            feed.write_all(&[name, b"\0\0"].concat()).await?;
        }
        Ok(())
    };
    let made = git.feed(&["mktree", "-z", "--missing", "--batch"], feed).await?;
    let made = String::from_utf8_lossy(&made).into_owned();
    let verdict = objects(&git).await?;
    for ((path, _), tree) in judged.iter().zip(made.lines()) {
        if let Some(why) = verdict.get(tree) {
            refused.insert((*path).to_owned(), why.clone());
        }
    }
    Ok(refused)
}

/// `MODE KIND ID\tPATH`
fn listed_entry(line: &[u8]) -> Option<(&[u8], Entry)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let mut fields = std::str::from_utf8(&line[..tab]).ok()?.split(' ');
    let mode = fields.next()?.to_owned();
    let id = fields.nth(1)?.to_owned();
    Some((&line[tab + 1..], Entry { mode, id }))
}

/// What commits that are only here take in a push, or why the mirror would refuse them.
pub async fn history(
    bare: &Bare,
    tips: &[&str],
    known: &[String],
    bytes_max: u64,
) -> Result<Result<u64, String>, Error> {
    let (objects, to) = bare.history()?;
    let feed = async |feed: &mut Feed| {
        for tip in tips {
            feed.write_all(format!("{tip}\n").as_bytes()).await?;
        }
        for tip in known {
            feed.write_all(format!("^{tip}\n").as_bytes()).await?;
        }
        Ok(())
    };
    bare.git().feed(&["pack-objects", "--revs", "--quiet", &to.display().to_string()], feed).await?;
    let failed = |source| Error::Scratch { path: objects.clone(), source };
    let bytes = pack_bytes(&objects.join("pack")).map_err(failed)?;
    let verdict = if bytes > bytes_max { None } else { Some(self::objects(&bare.judge(&objects)).await?) };
    fs::remove_dir_all(&objects).map_err(failed)?;
    let Some(verdict) = verdict else {
        return Ok(Err(format!(
            "the new commits have {bytes} bytes; one push may have at most {bytes_max} (git.push_bytes_max)"
        )));
    };
    Ok(match verdict.into_iter().next() {
        None => Ok(bytes),
        Some((id, why)) => Err(format!("the mirror refuses object {id}: {why}")),
    })
}

fn pack_bytes(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "pack") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
