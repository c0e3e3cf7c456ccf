// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encryption context of a file: the value of attribute `c` with prefix 9.
//!
//! ```text
//! version 1 (28 bytes): version, contents mode, names mode, flags, key descriptor[8], nonce[16]
//! version 2 (40 bytes): version, contents mode, names mode, flags, reserved[4], key identifier[16], nonce[16]
//! ```
//!
//! The policy is all of it but the nonce: a directory and everything below it share one policy.
//!
//! Source: kernel documentation, `filesystems/fscrypt`.

/// Name of the attribute.
pub const CONTEXT_NAME: &[u8] = b"c";
/// The shortest encrypted name: one cipher block.
pub const NAME_LEN_MIN: usize = 16;

const V1_LEN: usize = 28;
const V2_LEN: usize = 40;
const NONCE_LEN: usize = 16;

/// How files are encrypted, without the per-file nonce. Equal policies mean that a file belongs below a directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// A version that we know: its first bytes, filled up with zeroes.
    Known([u8; V2_LEN - NONCE_LEN]),
    /// A version to come: nothing can be said about it.
    Unrecognized,
}

/// The context is empty, has no version, or a length that its version does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Parses a context.
pub fn parse_context(context: &[u8]) -> Result<Policy, Malformed> {
    let expected = match context.first() {
        None | Some(0) => return Err(Malformed),
        Some(1) => V1_LEN,
        Some(2) => V2_LEN,
        Some(_) => return Ok(Policy::Unrecognized),
    };
    if context.len() != expected {
        return Err(Malformed);
    }
    let mut policy = [0; V2_LEN - NONCE_LEN];
    policy[..expected - NONCE_LEN].copy_from_slice(&context[..expected - NONCE_LEN]);
    Ok(Policy::Known(policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(version: u8, len: usize, key: u8, nonce: u8) -> Vec<u8> {
        let mut bytes = vec![key; len];
        bytes[..4].copy_from_slice(&[version, 1, 4, 0]);
        bytes[len - NONCE_LEN..].fill(nonce);
        bytes
    }

    #[test]
    fn the_nonce_does_not_belong_to_the_policy() {
        for (version, len) in [(1, V1_LEN), (2, V2_LEN)] {
            let one = parse_context(&context(version, len, 7, 1));
            assert!(matches!(one, Ok(Policy::Known(_))));
            assert_eq!(one, parse_context(&context(version, len, 7, 2)));
            assert_ne!(one, parse_context(&context(version, len, 8, 1)));
        }
    }

    #[test]
    fn lengths_have_to_fit_the_version() {
        assert_eq!(parse_context(&[]), Err(Malformed));
        assert_eq!(parse_context(&context(0, V1_LEN, 1, 1)), Err(Malformed));
        assert_eq!(parse_context(&context(1, V2_LEN, 1, 1)), Err(Malformed));
        assert_eq!(parse_context(&context(2, V1_LEN, 1, 1)), Err(Malformed));
        assert_eq!(parse_context(&[77]), Ok(Policy::Unrecognized));
    }
}
