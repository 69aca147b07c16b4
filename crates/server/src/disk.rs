//! The disk below the data: how much room it has, and whether an error says that it is full.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use omoi_protocol::DiskState;

/// A disk with less free space is full: the next write may fail.
pub const FREE_BYTES_MIN: u64 = 1 << 20;
/// A disk with less free space holds no further checkout.
pub const FREE_BYTES_SANDBOXES: u64 = 1 << 30;
/// A disk with less free space is low. One sandbox may take as much.
pub const FREE_BYTES_LOW: u64 = 10 << 30;

/// The space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What a process without privileges may still write.
    pub free_bytes: u64,
    pub total_bytes: u64,
}

impl Room {
    pub fn of(path: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(Self { free_bytes: bytes(disk.f_bavail), total_bytes: bytes(disk.f_blocks) })
    }

    pub fn is_full(self) -> bool {
        self.free_bytes < FREE_BYTES_MIN
    }

    /// What people are shown. A write may have failed although there is room for small ones.
    pub fn state(self, write_failed: bool) -> DiskState {
        match self.free_bytes {
            _ if write_failed => DiskState::Full,
            0..FREE_BYTES_MIN => DiskState::Full,
            FREE_BYTES_MIN..FREE_BYTES_LOW => DiskState::Low,
            FREE_BYTES_LOW.. => DiskState::Ok,
        }
    }
}

/// Whether an operation failed because the disk, or the user's quota of it, is used up.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes a file of `FREE_BYTES_MIN` into a directory and removes it again. Unlike the number of free blocks, this also
/// finds a quota that is used up.
pub fn try_to_write(dir: &Path) -> io::Result<()> {
    const PART_BYTES: usize = 64 << 10;
    let part = vec![0_u8; PART_BYTES];
    let path = dir.join(format!(".room-{}", crate::git::unique()));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    let parts = FREE_BYTES_MIN / PART_BYTES as u64;
    let written = (0..parts).try_for_each(|_| file.write_all(&part)).and_then(|()| file.sync_data());
    std::fs::remove_file(&path)?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_used_up_quota_are_told_from_other_errors() {
        for (error, full) in [
            (rustix::io::Errno::NOSPC, true),
            (rustix::io::Errno::DQUOT, true),
            (rustix::io::Errno::IO, false),
            (rustix::io::Errno::ACCESS, false),
        ] {
            assert_eq!(is_full(&error.into()), full, "{error:?}");
        }
    }

    #[test]
    fn a_disk_is_low_before_it_is_full() {
        for (free_bytes, write_failed, state) in [
            (0, false, DiskState::Full),
            (FREE_BYTES_MIN, false, DiskState::Low),
            (FREE_BYTES_LOW, false, DiskState::Ok),
            (FREE_BYTES_LOW, true, DiskState::Full),
        ] {
            let room = Room { free_bytes, total_bytes: u64::MAX };
            assert_eq!(room.state(write_failed), state, "{free_bytes}");
        }
    }

    #[test]
    fn a_trial_of_a_disk_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        try_to_write(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let room = Room::of(dir.path()).unwrap();
        assert!(room.free_bytes <= room.total_bytes && !room.is_full());
    }
}
