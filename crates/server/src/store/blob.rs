//! Blobs: content by its hash, compressed, stored once however often it is named.

use sha2::{Digest, Sha256};

use super::{Error, Tx, hex, value::params};

const LEVEL: i32 = 3;
/// The largest content that is kept: what a request may bring, with room for encoding.
const BYTES_MAX: usize = 64 * 1024 * 1024;

pub(super) fn hash(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

pub(super) async fn put(tx: &mut Tx, content: &[u8]) -> Result<String, Error> {
    let hash = hash(content);
    put_packed(tx, &hash, content.len() as i64, compress(content)?).await?;
    Ok(hash)
}

/// What `compress` made of content of this hash and size.
pub(super) async fn put_packed(tx: &mut Tx, hash: &str, size: i64, data: Vec<u8>) -> Result<(), Error> {
    let sql = "INSERT INTO blobs (hash, size, data) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING";
    tx.execute(sql, params![hash, size, data]).await
}

pub(super) async fn get(tx: &mut Tx, hash: &str) -> Result<Vec<u8>, Error> {
    let row = tx.query_one("SELECT size, data FROM blobs WHERE hash = $1", params![hash]).await?;
    let row = row.ok_or_else(|| Error::corrupt("blob_hash", "the name of nothing"))?;
    decompress(&row.get::<Vec<u8>>("data")?, row.get("size")?)
}

pub(super) fn compress(content: &[u8]) -> Result<Vec<u8>, Error> {
    zstd::bulk::compress(content, LEVEL)
        .map_err(|error| Error::Unavailable(format!("content could not be compressed: {error}")))
}

/// What `compress` made of `size` bytes.
pub(super) fn decompress(data: &[u8], size: i64) -> Result<Vec<u8>, Error> {
    let size = usize::try_from(size).unwrap_or(0).min(BYTES_MAX);
    zstd::bulk::decompress(data, size).map_err(|_| Error::corrupt("data", "not zstd"))
}

pub(super) async fn get_text(tx: &mut Tx, hash: &str) -> Result<String, Error> {
    String::from_utf8(get(tx, hash).await?).map_err(|_| Error::corrupt("data", "not UTF-8"))
}
