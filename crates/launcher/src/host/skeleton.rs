//! The image that is made of the host: an allow-list. `/usr` comes from the host, read-only; around it lies a skeleton with
//! the few files of `/etc` that programs need and that hold no secrets. Nothing else of the host is ever seen.

use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Counts up when what [`write`] makes changes.
const VERSION: u32 = 1;

/// System directories that are mounted whole, or linked into `/usr` as the host links them.
const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Copied as they are, as far as everybody may read them. No gitconfig, npmrc or pip.conf: they may hold credentials.
const ETC: [&str; 33] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "host.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "profile",
    "protocols",
    "python3",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

const WRITTEN: [(&str, &str); 7] = [
    (
        "passwd",
        "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    ),
    ("group", "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("hostname", "sandbox\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("resolv.conf", ""),
    ("machine-id", ""),
];

/// Directories of the host that the plan's image consists of, beside the skeleton.
pub fn host_directories(opt: bool) -> Vec<String> {
    let real = |name: &&str| fs::symlink_metadata(Path::new("/").join(name)).is_ok_and(|meta| meta.is_dir());
    SYSTEM.into_iter().filter(real).chain(opt.then_some("opt").filter(real)).map(str::to_owned).collect()
}

/// The skeleton for the host as it is now, made if it is not there yet.
pub fn find(cache: &Path) -> io::Result<PathBuf> {
    let path = cache.join(format!("host-{VERSION}-{:016x}", fingerprint()));
    if path.is_dir() {
        return Ok(path);
    }
    fs::create_dir_all(cache)?;
    let draft = cache.join(format!("draft-{}", std::process::id()));
    let written = write(&draft).and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        let _ = fs::remove_dir_all(&draft);
    }
    // Somebody else may have been faster.
    if path.is_dir() { Ok(path) } else { written.map(|()| path) }
}

/// Changes when a file changes that is copied.
fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    for name in ETC
        .iter()
        .map(|name| Path::new("/etc").join(name))
        .chain(SYSTEM.map(|name| Path::new("/").join(name)))
    {
        let meta = fs::symlink_metadata(&name).ok();
        meta.map(|meta| (meta.ctime(), meta.ctime_nsec(), meta.ino())).hash(&mut hasher);
    }
    hasher.finish()
}

fn write(root: &Path) -> io::Result<()> {
    make(root, 0o755)?;
    for name in SYSTEM {
        match fs::read_link(Path::new("/").join(name)) {
            Ok(target) => symlink(target, root.join(name))?,
            Err(_) if Path::new("/").join(name).is_dir() => make(&root.join(name), 0o755)?,
            Err(_) => {}
        }
    }
    for name in ["dev", "etc", "home", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var"] {
        make(&root.join(name), 0o755)?;
    }
    for name in ["cache", "lib", "log", "spool", "tmp"] {
        make(&root.join("var").join(name), if name == "tmp" { 0o1777 } else { 0o755 })?;
    }
    symlink("/run", root.join("var/run"))?;
    for name in ETC {
        let (from, to) = (Path::new("/etc").join(name), root.join("etc").join(name));
        if let Some(parent) = to.parent() {
            make(parent, 0o755)?;
        }
        copy(&from, &to, 0)?;
    }
    for (name, text) in WRITTEN {
        let path = root.join("etc").join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    }
    symlink("/proc/self/mounts", root.join("etc/mtab"))
}

/// Copies what everybody may read. Links stay links: what they point to is there as well, or is nobody's business.
fn copy(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(from) else { return Ok(()) };
    if meta.is_symlink() {
        let target = fs::read_link(from)?;
        let kept = target.starts_with("/usr") || target.starts_with("/etc") || !target.is_absolute();
        return if kept { symlink(target, to) } else { Ok(()) };
    }
    if meta.mode() & 0o004 == 0 || depth > 8 {
        return Ok(());
    }
    if meta.is_dir() {
        make(to, 0o755)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name), depth + 1)?;
        }
    } else if meta.is_file() {
        fs::copy(from, to)?;
        fs::set_permissions(to, Permissions::from_mode(meta.mode() & 0o755))?;
    }
    Ok(())
}

fn make(path: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}
