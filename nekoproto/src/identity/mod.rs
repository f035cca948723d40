//! Who a node is: its key pair, the records it signs, and checking what others signed.

pub(crate) mod key_pair;
mod signing;
pub(crate) mod verifier;
