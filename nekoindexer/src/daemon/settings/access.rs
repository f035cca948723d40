//! Flags that say whom a node connects with: the secret of a private network, and a list of nodes.

use std::{env, ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use nekoproto::transport::{Access, NetworkSecret};

/// The environment variable that holds the secret itself. That of the flag names the file, as with every flag.
pub(super) const SECRET_VARIABLE: &str = "NEKO_NETWORK_SECRET_VALUE";

/// An empty one is an error, not an open network: somebody meant to give a secret.
fn secret_in_environment() -> Option<OsString> {
    env::var_os(SECRET_VARIABLE)
}

pub(super) fn is_secret_in_environment() -> bool {
    secret_in_environment().is_some()
}

/// Whom the node connects with.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AccessArgs {
    /// File with the secret of a private network, at least 32 bytes that only its owner may read; the environment
    /// variable NEKO_NETWORK_SECRET_VALUE holds the secret itself [default: an open network]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Network", value_name = "FILE")]
    network_secret: Option<PathBuf>,
    /// File with the ids of the nodes that connections are made with, one a line, `#` begins a comment; read again
    /// on SIGHUP [default: all]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Network", value_name = "FILE")]
    pub allow: Option<PathBuf>,
    /// With --insecure and a secret: all links between the nodes are closed to others, such as a VPN. Whoever is on one can
    /// pass on a handshake without knowing the secret, and then read what is sent, and ask, register and change in its place
    #[arg(long, global = true, hide_short_help = true, help_heading = "Network")]
    closed_link: bool,
    /// What the files say, after `AccessArgs::load`.
    #[arg(skip)]
    pub loaded: Access,
}

impl AccessArgs {
    pub(super) fn load(&mut self) -> Result<(), String> {
        self.loaded.secret = self.secret(secret_in_environment())?;
        self.loaded.allowed.load(self.allow.as_deref()).map_err(|error| error.to_string()).map(drop)
    }

    /// The files that say it.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.network_secret.iter().chain(&self.allow)
    }

    /// Refuses a secret that protects nothing: without TLS its proof is bound to no connection.
    ///
    /// # Errors
    /// One line for people.
    pub fn check(&self, insecure: bool) -> Result<(), String> {
        match insecure && self.loaded.secret.is_some() && !self.closed_link {
            false => Ok(()),
            true => Err("with --insecure, the secret of a network keeps out nobody who is on a link between its nodes: leave \
                         out --insecure, or add --closed-link if no link is open to others"
                .to_owned()),
        }
    }

    fn secret(&self, value: Option<OsString>) -> Result<Option<NetworkSecret>, String> {
        match (&self.network_secret, value) {
            (Some(_), Some(_)) => Err(format!(
                "both --network-secret and {SECRET_VARIABLE} give a secret: leave one of them out"
            )),
            (Some(path), None) => NetworkSecret::load(path).map(Some).map_err(|error| error.to_string()),
            (None, Some(value)) => NetworkSecret::new(value.as_bytes())
                .map(Some)
                .map_err(|error| format!("{SECRET_VARIABLE}: {error}")),
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_comes_from_one_place_and_is_named_in_no_error() {
        let text = "only-this-network-knows-these-32-bytes";
        let args =
            |path: Option<&str>| AccessArgs { network_secret: path.map(PathBuf::from), ..Default::default() };
        assert!(args(None).secret(None).unwrap().is_none());
        let secret = args(None).secret(Some(text.into())).unwrap();
        assert_eq!(secret, Some(NetworkSecret::new(text.as_bytes()).unwrap()));
        let errors = [
            args(Some("/nowhere")).secret(Some(text.into())),
            args(None).secret(Some(text[..31].into())),
            args(None).secret(Some("".into())),
        ];
        for error in errors {
            let error = error.unwrap_err();
            assert!(error.contains(SECRET_VARIABLE) && !error.contains("these-32"), "{error}");
        }
    }
}
