//! [`Token`]: the secret of changing routes, in a file that only its owner may read; [`Authorized`] asks for it.

use std::{
    fmt::{self, Write as _},
    fs::{self, File, OpenOptions},
    hint::black_box,
    io::{self, Read, Write as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, header, request::Parts},
};
use nekoproto::close_to_group;
use rustix::fs::OFlags;

use super::problem::Problem;

/// Bytes of a token: it is written as twice as many hexadecimal digits.
const TOKEN_BYTES: usize = 32;

/// The secret that changing routes ask for.
#[derive(Clone)]
pub struct Token(String);

/// Why there is no token. The file, if there is one, is as it was.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or made.
    #[error("cannot use the token file {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a link, a folder or a pipe.
    #[error("the token file {0} is no plain file; move it away, and a new one is made")]
    NotAFile(PathBuf),
    /// Another user owns it, or it has further names: somebody else may have written it.
    #[error("the token file {0} is another user's, or has further names; delete it to get a new token")]
    Foreign(PathBuf),
    /// Others may read it.
    #[error("others may read the token file {0}; delete it to get a new token, or run: chmod 600 {0}")]
    Exposed(PathBuf),
    /// It holds no token.
    #[error("{0} holds no token of 64 hexadecimal digits; delete it to get a new one")]
    Malformed(PathBuf),
}

impl Token {
    /// Reads the token from `path`, or makes one there (mode 0600) if there is no file.
    ///
    /// # Errors
    /// The file cannot be used: see [`TokenError`].
    pub fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        let in_file = |source| TokenError::File { path: path.to_owned(), source };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => return Err(TokenError::NotAFile(path.to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Self::create(path).map_err(in_file);
            }
            Err(error) => return Err(in_file(error)),
        }
        // A link that took the file's place meanwhile is not followed.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags(OFlags::NOFOLLOW))
            .open(path)
            .map_err(in_file)?;
        let found = file.metadata().map_err(in_file)?;
        let (is_ours, links) = (found.uid() == rustix::process::geteuid().as_raw(), found.nlink());
        if !is_ours || links != 1 {
            return Err(TokenError::Foreign(path.to_owned()));
        }
        if close_to_group(&file).map_err(in_file)? {
            return Err(TokenError::Exposed(path.to_owned()));
        }
        let mut text = String::new();
        let read = file.take(4 * TOKEN_BYTES as u64).read_to_string(&mut text);
        let token = text.trim_ascii();
        if read.is_err()
            || token.len() != 2 * TOKEN_BYTES
            || !token.bytes().all(|digit| digit.is_ascii_hexdigit())
        {
            return Err(TokenError::Malformed(path.to_owned()));
        }
        Ok(Self(token.to_owned()))
    }

    /// Writes a new one to a temporary file next to `path` and renames it: a crash leaves a whole token or none.
    fn create(path: &Path) -> io::Result<Self> {
        let secret: [u8; TOKEN_BYTES] = rand::random();
        let token = secret.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // a string takes everything
            text
        });
        let fresh = path.with_extension("token.new");
        if let Err(error) = fs::remove_file(&fresh)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        writeln!(file, "{token}")?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all()?,
            _ => {}
        }
        Ok(Self(token))
    }

    /// Whether `told` is the token. Takes the same time however much of it is right.
    #[must_use]
    pub fn is(&self, told: &str) -> bool {
        let differing = self.0.bytes().zip(told.bytes()).fold(0, |so_far, (ours, theirs)| {
            black_box(so_far | (ours ^ theirs)) // an early end would tell how much was right
        });
        self.0.len() == told.len() && differing == 0
    }

    /// The token itself, to be shown to its owner.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

/// A request that has told the token, as `Authorization: Bearer TOKEN`. As an argument of a handler it refuses
/// all others: 401 without a token, 403 with a wrong one or where there is none to tell.
///
/// The router must be [guarded](super::guarded), by a [`Guard`](super::Guard) with the token.
#[derive(Clone, Copy, Debug)]
pub struct Authorized(());

/// The token of the daemon, as the guard hands it to [`Authorized`].
#[derive(Clone, Debug)]
pub(super) struct Expected(pub(super) Option<Arc<Token>>);

impl<S: Sync> FromRequestParts<S> for Authorized {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(Expected(Some(token))) = parts.extensions.get::<Expected>() else {
            return Err(Problem::forbidden(
                "this daemon keeps no token, so nothing can be changed over HTTP; start it with a data folder",
            ));
        };
        let told = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let told = told.and_then(|value| value.split_once(' '));
        match told.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) {
            None => Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "token needed",
                "send the token, which is in the file http.token of the data folder: `Authorization: Bearer TOKEN`",
            )),
            Some((_, told)) if token.is(told.trim_ascii()) => Ok(Self(())),
            Some(_) => Err(Problem::forbidden(
                "this is not the token of this daemon, which is in the file http.token of its data folder",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn token_is_made_once_private_and_read_back() {
        let (folder, path) = testkit::temp_path("http.token");
        let made = Token::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap(); // the volume's group was let in
        let read = Token::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(read.is(made.reveal()));
        let other = Token::load_or_create(&folder.path().join("other")).unwrap();
        assert!(!read.is(other.reveal()) && !read.is("") && !read.is(&made.reveal()[1..]));
        assert!(!read.is(&format!("{}0", made.reveal())));
    }

    #[test]
    fn exposed_linked_or_damaged_file_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("http.token"), folder.path().join("link"));
        let made = Token::load_or_create(&path).unwrap();
        symlink(&path, &link).unwrap();
        assert!(matches!(Token::load_or_create(&link), Err(TokenError::NotAFile(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Token::load_or_create(&path), Err(TokenError::Exposed(_))));
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), made.reveal());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let second = folder.path().join("second");
        fs::hard_link(&path, &second).unwrap();
        assert!(matches!(Token::load_or_create(&path), Err(TokenError::Foreign(_))));
        fs::remove_file(second).unwrap();
        assert!(Token::load_or_create(&path).is_ok());
        for text in ["", "secret", &"g".repeat(64), &"a".repeat(65)] {
            fs::write(&path, text).unwrap();
            assert!(matches!(Token::load_or_create(&path), Err(TokenError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn a_link_in_place_of_the_temporary_file_is_not_written_through() {
        let (folder, precious) = testkit::temp_path("precious");
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, folder.path().join("http.token.new")).unwrap();
        Token::load_or_create(&folder.path().join("http.token")).unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }
}
