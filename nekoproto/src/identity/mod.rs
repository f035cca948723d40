//! Who a node is: its key pair, the records it signs, and checking what others signed.

mod key_pair;
mod signing;
mod verifier;

pub use self::{
    key_pair::{Identity, IdentityError},
    verifier::Verifier,
};
