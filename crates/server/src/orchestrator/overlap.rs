//! Tells of tasks under way that touch the same files, once for each pair.

use crate::store::{Error, Store};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub overlaps_told: usize,
}

pub async fn overlaps(store: &Store) -> Result<Report, Error> {
    Ok(Report { overlaps_told: store.overlap_tell().await? })
}
