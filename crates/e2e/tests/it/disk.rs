//! A disk small enough to fill.

use std::{
    ffi::CString,
    fs,
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Gone with this.
pub struct Tmpfs(PathBuf);

impl Tmpfs {
    pub fn mount(at: PathBuf, size: &str) -> Self {
        fs::create_dir_all(&at).unwrap();
        let options = CString::new(format!("size={size}")).unwrap();
        mount("tmpfs", &at, "tmpfs", MountFlags::empty(), Some(options.as_c_str()))
            .expect("tests of full disks mount a tmpfs, which takes root");
        Self(at)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).unwrap();
    }
}
