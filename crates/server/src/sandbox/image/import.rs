//! From a source to an image: which kind of source it is, and the marker that says that all of it is there.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{
    Error, Image, Limits, METADATA, ROOT,
    archive::{self, Next},
    copy, oci,
    tree::{self, Tree},
};

/// Where an archive that holds an image, not files, is unpacked meanwhile.
const LAYOUT: &str = "layout";

/// Makes `dir`, with the image in it. What stands there after an error is for the caller to remove.
pub fn make(name: &str, source: &Path, dir: &Path, limits: Limits, now: Timestamp) -> Result<Image, Error> {
    let source = fs::canonicalize(source).map_err(Error::file(source))?;
    let found = fs::metadata(&source).map_err(Error::file(&source))?;
    let above = dir.parent().unwrap_or(Path::new("."));
    if fs::canonicalize(above).map_err(Error::file(above))?.starts_with(&source) {
        return Err(Error::refused(&source, "holds the data directory; take a directory that does not"));
    }
    fs::DirBuilder::new().mode(0o700).create(dir).map_err(Error::file(dir))?;
    let mut root = Tree::make(&dir.join(ROOT), limits)?;
    let digest = if found.is_dir() {
        if oci::is_layout(&source) {
            Some(layers(&source, limits, &mut root)?)
        } else {
            copy::copy(&source, &mut root)?;
            None
        }
    } else if found.is_file() {
        Some(from_archive(&source, dir, limits, &mut root)?)
    } else {
        return Err(Error::refused(&source, "is neither a directory nor a file"));
    };
    let (files, bytes) = measure(&dir.join(ROOT)).map_err(Error::file(dir))?;
    let image = Image {
        name: name.to_owned(),
        source: source.display().to_string(),
        digest,
        bytes,
        files,
        skipped: root.skipped,
        imported_at: Some(now),
    };
    mark(&image, dir).map_err(Error::file(dir))?;
    Ok(image)
}

/// The digest of the archive, or of the image in it.
fn from_archive(source: &Path, dir: &Path, limits: Limits, root: &mut Tree) -> Result<String, Error> {
    let file = File::open(source).map_err(Error::file(source))?;
    if !holds_image(&file, source, limits)? {
        archive::unpack(archive::open(&file, source)?, source, limits, root)?;
        let mut file = file;
        io::Seek::rewind(&mut file).map_err(Error::file(source))?;
        return digest(file).map_err(Error::file(source));
    }
    let layout = dir.join(LAYOUT);
    archive::unpack(archive::open(&file, source)?, source, limits, &mut Tree::make(&layout, limits)?)?;
    let digest = layers(&layout, limits, root)?;
    tree::remove(&layout)?;
    Ok(digest)
}

fn layers(layout: &Path, limits: Limits, root: &mut Tree) -> Result<String, Error> {
    let image = oci::read(layout, limits)?;
    for (path, layer) in &image.layers {
        archive::unpack_layer(layer, path, limits, root)?;
    }
    Ok(image.digest)
}

/// Whether an archive holds an image, and nothing beside: so one of files is known by its first entries.
fn holds_image(file: &File, path: &Path, limits: Limits) -> Result<bool, Error> {
    let (mut index, mut alone) = (false, true);
    archive::walk(archive::open(file, path)?, path, limits, |entry| {
        let path = Tree::plain(&entry.path_bytes())?;
        let Some(first) = path.components().next() else { return Ok(Next::More) };
        index |= path == Path::new(oci::INDEX) || path == Path::new(oci::DOCKER_MANIFEST);
        alone = oci::is_part(first.as_os_str().as_bytes());
        Ok(if alone { Next::More } else { Next::Stop })
    })?;
    Ok(index && alone)
}

/// `sha256:` and the digest of all that comes.
pub fn digest(mut from: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match from.read(&mut chunk)? {
            0 => break,
            n => hash.update(&chunk[..n]),
        }
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
}

/// What is there in the end, which is less than was written where layers hide one another: how many, and their bytes.
fn measure(root: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes, mut seen) = (0, 0, HashSet::new());
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let found = entry.metadata()?;
            files += 1;
            if found.is_dir() {
                dirs.push(entry.path());
            } else if found.is_file() && (found.nlink() == 1 || seen.insert(found.ino())) {
                bytes += found.len();
            }
        }
    }
    Ok((files, bytes))
}

/// Written when everything else is on the disk.
fn mark(image: &Image, dir: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(dir)?)?;
    let path: PathBuf = dir.join(METADATA);
    let mut file = File::create(path)?;
    file.write_all(&serde_json::to_vec_pretty(image)?)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    File::open(dir)?.sync_all()
}
