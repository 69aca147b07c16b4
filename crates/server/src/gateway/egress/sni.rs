//! The host that the first bytes of a TLS connection name, read without taking part in it. A handshake that hides its
//! name by being too long, cut up or malformed is told apart from one that has none.

use tokio::io::{AsyncRead, AsyncReadExt};

/// More than any honest client sends before the server's first word.
const HELLO_BYTES_MAX: usize = 32 * 1024;
const RECORD_HANDSHAKE: u8 = 22;
const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;
const NAME_TYPE_HOST: u8 = 0;

/// A fatal `unrecognized_name`, as a server sends it that does not know the host.
pub const ALERT_UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    NotTls,
    /// It begins like TLS and is nothing that can be read.
    Unreadable,
    Unnamed,
    Named(String),
}

/// Reads until it is known what the bytes are; `bytes` holds all that was read.
pub async fn read(from: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> std::io::Result<Hello> {
    loop {
        if let Some(hello) = parse(bytes) {
            return Ok(hello);
        }
        if bytes.len() >= HELLO_BYTES_MAX {
            return Ok(Hello::Unreadable);
        }
        if from.read_buf(bytes).await? == 0 {
            // Whoever says nothing and goes has sent nothing to hide.
            return Ok(if bytes.is_empty() { Hello::NotTls } else { Hello::Unreadable });
        }
    }
}

/// None while more bytes are needed.
fn parse(bytes: &[u8]) -> Option<Hello> {
    match bytes {
        [] | [RECORD_HANDSHAKE] => return None,
        [RECORD_HANDSHAKE, 3, ..] => {}
        _ => return Some(Hello::NotTls),
    }
    let (handshake, broken) = join_records(bytes);
    match hello_body(&handshake) {
        Ok(Some(body)) => Some(server_name(body).unwrap_or(Hello::Unreadable)),
        Ok(None) if !broken => None,
        _ => Some(Hello::Unreadable),
    }
}

/// The handshake's bytes out of however many records it is cut into, and whether something else follows them.
fn join_records(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut handshake = Vec::new();
    while let [kind, version, _, high, low, rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind != RECORD_HANDSHAKE || *version != 3 || length == 0 {
            return (handshake, true);
        }
        let here = length.min(rest.len());
        handshake.extend_from_slice(&rest[..here]);
        bytes = &rest[here..];
    }
    (handshake, false)
}

/// The body of the first message, once it is whole.
fn hello_body(handshake: &[u8]) -> Result<Option<&[u8]>, ()> {
    let [kind, rest @ ..] = handshake else { return Ok(None) };
    if *kind != HANDSHAKE_CLIENT_HELLO {
        return Err(());
    }
    let [a, b, c, body @ ..] = rest else { return Ok(None) };
    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    if length > HELLO_BYTES_MAX {
        return Err(());
    }
    Ok(body.get(..length))
}

/// None for what cannot be read.
fn server_name(body: &[u8]) -> Option<Hello> {
    let mut rest = body;
    let _version_and_random = take(&mut rest, 34)?;
    let _session_id = vector::<1>(&mut rest)?;
    let _cipher_suites = vector::<2>(&mut rest)?;
    let _compression_methods = vector::<1>(&mut rest)?;
    if rest.is_empty() {
        return Some(Hello::Unnamed);
    }
    let mut extensions = vector::<2>(&mut rest)?;
    let mut found = Hello::Unnamed;
    while !extensions.is_empty() {
        let kind = number::<2>(&mut extensions)?;
        let data = vector::<2>(&mut extensions)?;
        if kind == usize::from(EXTENSION_SERVER_NAME) {
            // Two of them could be read one way here and another way there.
            if found != Hello::Unnamed {
                return None;
            }
            found = Hello::Named(host_name(data)?);
        }
    }
    rest.is_empty().then_some(found)
}

fn host_name(mut data: &[u8]) -> Option<String> {
    let mut names = vector::<2>(&mut data)?;
    let kind = number::<1>(&mut names)?;
    let name = vector::<2>(&mut names)?;
    let alone = data.is_empty() && names.is_empty() && kind == usize::from(NAME_TYPE_HOST);
    (alone && name.is_ascii()).then(|| String::from_utf8_lossy(name).into_owned())
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn number<const BYTES: usize>(rest: &mut &[u8]) -> Option<usize> {
    Some(take(rest, BYTES)?.iter().fold(0, |number, byte| (number << 8) | usize::from(*byte)))
}

/// Bytes preceded by their length.
fn vector<'a, const BYTES: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number::<BYTES>(rest)?;
    take(rest, length)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, pki_types::ServerName};

    use super::*;

    /// What a real client sends first.
    fn hello(host: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// The same handshake in records of this many bytes.
    fn cut_up(hello: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[22, 3, 1, 0, part.len() as u8], part].concat();
        hello[5..].chunks(size).flat_map(record).collect()
    }

    #[test]
    fn a_real_client_s_host_is_found() {
        assert_eq!(parse(&hello("crates.io")), Some(Hello::Named("crates.io".to_owned())));
        // A name that is an address is not sent.
        assert_eq!(parse(&hello("1.2.3.4")), Some(Hello::Unnamed));
    }

    #[test]
    fn a_handshake_in_many_records_hides_nothing() {
        let bytes = cut_up(&hello("crates.io"), 7);
        assert_eq!(parse(&bytes), Some(Hello::Named("crates.io".to_owned())));
        for end in 2..bytes.len() {
            assert_eq!(parse(&bytes[..end]), None, "{end} bytes are not enough");
        }
    }

    #[test]
    fn what_only_looks_like_tls_is_unreadable_and_what_does_not_is_something_else() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0-x\r\n", &[22, 2, 0, 0, 0], &[0]] {
            assert_eq!(parse(bytes), Some(Hello::NotTls), "{bytes:?}");
        }
        let two_names = [&[22, 3, 1, 0, 5, 1, 0, 0, 1, 0][..], b"more"].concat();
        for bytes in [
            // Another message, an empty record, an alert in between, far too long, cut short inside.
            &[22, 3, 1, 0, 4, 2, 0, 0, 0][..],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0, 1, 1, 21, 3, 3, 0, 2, 2, 40],
            &[22, 3, 1, 64, 0, 1, 255, 0, 0],
            &two_names,
        ] {
            assert_eq!(parse(bytes), Some(Hello::Unreadable), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn reading_ends_with_the_bytes_or_the_bound() {
        let mut bytes = Vec::new();
        let whole = hello("crates.io");
        assert_eq!(read(&mut &whole[..], &mut bytes).await.unwrap(), Hello::Named("crates.io".to_owned()));
        assert_eq!(bytes, whole);
        assert_eq!(read(&mut &whole[..20], &mut Vec::new()).await.unwrap(), Hello::Unreadable);
        assert_eq!(read(&mut &b""[..], &mut Vec::new()).await.unwrap(), Hello::NotTls);
        let endless = [&[22, 3, 1, 0xff, 0xff, 1, 0, 0x7f, 0xff][..], &[0; 100_000]].concat();
        let mut bytes = Vec::new();
        assert_eq!(read(&mut &endless[..], &mut bytes).await.unwrap(), Hello::Unreadable);
        assert!(bytes.len() <= 2 * HELLO_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(bytes: Vec<u8>) {
            let _ = parse(&bytes);
            let _ = parse(&[&[22, 3, 1][..], &bytes].concat());
            let _ = server_name(&bytes);
            let _ = host_name(&bytes);
        }

        #[test]
        fn a_damaged_handshake_is_read_without_harm(at: prop::sample::Index, byte: u8, end: prop::sample::Index) {
            let mut bytes = hello("crates.io");
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(end.index(bytes.len()) + 1);
            let _ = parse(&bytes);
        }
    }
}
