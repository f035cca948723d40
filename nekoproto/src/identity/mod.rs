//! Who a node is: its key pair, the records it signs, and checking what others signed.

mod key_pair;
mod private;
mod signing;
mod verifier;

pub use self::{
    key_pair::{Identity, IdentityError},
    private::{PrivateError, close_to_group, only_own, open_private, private_folder, shell_word},
    verifier::Verifier,
};
