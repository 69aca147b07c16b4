//! The objects of a workspace, shown to Git one by one: what is an ordinary file with the name of an object or a
//! pack. A pipe in its place would hold Git for ever, and a list of further places would lead it anywhere.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use crate::git::is_real_dir;

const OBJECTS_MAX: usize = 2_000_000;
const PACK_ENDINGS: [&str; 3] = ["pack", "idx", "rev"];

/// Makes `to` a directory of objects that leads to those of `from`. Without any, it is empty.
pub fn show(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.join("pack"))?;
    if !is_real_dir(from) {
        return Ok(());
    }
    let mut count = 0;
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|_| is_real_dir(&entry.path())) else { continue };
        if name == "pack" {
            link(&entry.path(), &to.join(name), is_pack, &mut count)?;
        } else if is_hex(name, &[2]) {
            fs::create_dir_all(to.join(name))?;
            link(&entry.path(), &to.join(name), |file| is_hex(file, &[38, 62]), &mut count)?;
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool, count: &mut usize) -> io::Result<()> {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_file && wanted(name)) else { continue };
        *count += 1;
        if *count > OBJECTS_MAX {
            return Ok(());
        }
        symlink(entry.path(), to.join(name))?;
    }
    Ok(())
}

fn is_pack(name: &str) -> bool {
    let ending = name.strip_prefix("pack-").and_then(|rest| rest.split_once('.'));
    ending.is_some_and(|(id, ending)| is_hex(id, &[40, 64]) && PACK_ENDINGS.contains(&ending))
}

fn is_hex(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
