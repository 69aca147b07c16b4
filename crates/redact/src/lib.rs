//! Masks secrets in text before it is stored, reported or streamed. It knows exact secrets, and Omoi's own tokens by
//! their shape, and finds both as they are and in base64, hex and percent-encoding, also when the encoding is wrapped
//! over several lines. A mask has the length of what it covers and its encoding, so offsets stay valid, JSON can be parsed and
//! base64 can be decoded.

mod dump;
mod form;
mod secrets;
mod shape;
mod stream;
mod unit;

#[cfg(test)]
mod tests;

pub use secrets::{Secrets, is_maskable};
pub use stream::Stream;
