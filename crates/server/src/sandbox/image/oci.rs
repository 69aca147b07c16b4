//! Images as container tools write them: the layout of OCI, and the older one of `docker save`. Every part is named by its
//! digest, and is what it is named.

use std::{
    fs::File,
    io::{Read, Seek},
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};

use super::{Error, Limits, archive, import::digest, tree::Tree};

pub const INDEX: &str = "index.json";
pub const DOCKER_MANIFEST: &str = "manifest.json";
const LAYOUT: &str = "oci-layout";

const JSON_BYTES_MAX: u64 = 8 << 20;
const LAYERS_MAX: usize = 512;
/// An index may name indexes.
const NESTED_MAX: usize = 4;

pub struct Layers {
    pub digest: String,
    /// From the lowest on.
    pub layers: Vec<(PathBuf, File)>,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

/// A manifest or, by a wrong media type, an index.
#[derive(Debug, Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Descriptor>,
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    layers: Vec<String>,
    repo_tags: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct DockerConfig {
    rootfs: DockerRoot,
}

#[derive(Debug, Deserialize)]
struct DockerRoot {
    /// Digests of the layers, not compressed.
    diff_ids: Vec<String>,
}

pub fn is_layout(dir: &Path) -> bool {
    (dir.join(LAYOUT).is_file() && dir.join(INDEX).is_file())
        || (dir.join(DOCKER_MANIFEST).is_file() && dir.join("blobs").is_dir())
}

/// Whether something of this name is at the top of an archive that holds an image.
pub fn is_part(name: &[u8]) -> bool {
    let known = [INDEX, DOCKER_MANIFEST, LAYOUT, "blobs", "repositories"];
    let text = String::from_utf8_lossy(name);
    let stem = text.trim_end_matches(".json").trim_end_matches(".tar");
    known.contains(&&*text) || is_hex(stem)
}

/// Finds the image for this machine and checks its digests.
pub fn read(dir: &Path, limits: Limits) -> Result<Layers, Error> {
    if dir.join(INDEX).is_file() { read_oci(dir) } else { read_docker(dir, limits) }
}

fn read_oci(dir: &Path) -> Result<Layers, Error> {
    let index: Index = json(dir, Path::new(INDEX), None)?;
    let mut found = index.manifests;
    for _ in 0..NESTED_MAX {
        let chosen = choose(dir, found)?;
        let manifest: Manifest = json(dir, &blob(dir, &chosen.digest)?, Some(&chosen))?;
        match manifest.manifests {
            Some(inner) => found = inner,
            None => {
                let layers = &manifest.layers;
                must_be_few(dir, layers.len())?;
                let layers = layers.iter().map(|layer| checked(dir, layer)).collect::<Result<_, _>>()?;
                return Ok(Layers { digest: chosen.digest, layers });
            }
        }
    }
    Err(Error::refused(dir, "its index names indexes without end"))
}

/// The one image, or the one for machines like this.
fn choose(dir: &Path, mut found: Vec<Descriptor>) -> Result<Descriptor, Error> {
    let of = |platform: &Platform| format!("{}/{}", platform.os, platform.architecture);
    let wanted = format!("linux/{}", architecture());
    if found.len() > 1 {
        // Attestations are for no platform at all.
        found.retain(|one| one.platform.as_ref().is_none_or(|platform| of(platform) == wanted));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::refused(dir, format!("holds no image for {wanted}"))),
        n => Err(Error::refused(dir, format!("holds {n} images for {wanted}; export one alone"))),
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn checked(dir: &Path, layer: &Descriptor) -> Result<(PathBuf, File), Error> {
    let path = blob(dir, &layer.digest)?;
    let file = open_checked(dir, &path, layer)?;
    if layer.media_type.contains("encrypted") {
        return Err(Error::refused(dir.join(path), "is encrypted"));
    }
    Ok((dir.join(path), file))
}

fn open_checked(dir: &Path, path: &Path, named: &Descriptor) -> Result<File, Error> {
    let shown = dir.join(path);
    let mut file = Tree::open(dir, path)?;
    let length = file.metadata().map_err(Error::file(&shown))?.len();
    if length != named.size {
        return Err(Error::refused(shown, format!("has {length} bytes and is said to have {}", named.size)));
    }
    let is = digest(&file).map_err(Error::file(&shown))?;
    if is != named.digest {
        return Err(Error::refused(shown, format!("is damaged: its digest is {is}")));
    }
    file.rewind().map_err(Error::file(&shown))?;
    Ok(file)
}

fn blob(dir: &Path, digest: &str) -> Result<PathBuf, Error> {
    match digest.strip_prefix("sha256:") {
        Some(hex) if is_hex(hex) => Ok(["blobs", "sha256", hex].iter().collect()),
        _ => Err(Error::refused(dir, format!("names a part by {digest:?}, which is no sha256 digest"))),
    }
}

fn is_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
}

fn read_docker(dir: &Path, limits: Limits) -> Result<Layers, Error> {
    let mut images: Vec<DockerImage> = json(dir, Path::new(DOCKER_MANIFEST), None)?;
    if images.len() != 1 {
        let tags: Vec<_> = images.iter().flat_map(|image| image.repo_tags.iter().flatten()).collect();
        return Err(Error::refused(dir, format!("holds {} images {tags:?}; save one alone", images.len())));
    }
    let image = images.remove(0);
    let config: DockerConfig = json(dir, Path::new(&image.config), None)?;
    let is =
        digest(Tree::open(dir, Path::new(&image.config))?).map_err(Error::file(dir.join(&image.config)))?;
    let name = Path::new(&image.config).file_stem().unwrap_or_default().to_string_lossy();
    if is_hex(&name) && is != format!("sha256:{name}") {
        return Err(Error::refused(dir.join(&image.config), format!("is damaged: its digest is {is}")));
    }
    let ids = &config.rootfs.diff_ids;
    if ids.len() != image.layers.len() {
        let detail = format!("has {} layers and names {}", image.layers.len(), ids.len());
        return Err(Error::refused(dir, detail));
    }
    must_be_few(dir, ids.len())?;
    let layers = image.layers.iter().zip(ids).map(|(path, id)| docker_layer(dir, path, id, limits));
    Ok(Layers { digest: is, layers: layers.collect::<Result<_, _>>()? })
}

fn docker_layer(dir: &Path, path: &str, id: &str, limits: Limits) -> Result<(PathBuf, File), Error> {
    let shown = dir.join(path);
    let file = Tree::open(dir, Path::new(path))?;
    // As much as the layer could hold, and what it takes to say so.
    let most = limits.bytes_max.saturating_mul(2);
    let is = digest(archive::open(&file, &shown)?.take(most)).map_err(Error::file(&shown))?;
    if is == id {
        Ok((shown, file))
    } else {
        Err(Error::refused(shown, format!("is damaged: its digest is {is}")))
    }
}

fn must_be_few(dir: &Path, layers: usize) -> Result<(), Error> {
    if layers <= LAYERS_MAX { Ok(()) } else { Err(Error::refused(dir, format!("has {layers} layers"))) }
}

fn json<T: DeserializeOwned>(dir: &Path, path: &Path, named: Option<&Descriptor>) -> Result<T, Error> {
    let shown = dir.join(path);
    let file = match named {
        Some(named) if named.size > JSON_BYTES_MAX => {
            return Err(Error::refused(shown, format!("is said to have {} bytes", named.size)));
        }
        Some(named) => open_checked(dir, path, named)?,
        None => Tree::open(dir, path)?,
    };
    let mut text = Vec::new();
    file.take(JSON_BYTES_MAX).read_to_end(&mut text).map_err(Error::file(&shown))?;
    serde_json::from_slice(&text).map_err(|error| Error::refused(shown, format!("cannot be read: {error}")))
}
