//! The super-admin token of `windlass up`, in a file that only its owner can read.

use std::fs;
use std::path::{Path, PathBuf};

use super::private_file;
use crate::auth::{Role, TokenSecret, create_admin_token};
use crate::cli::exit::Failure;
use crate::http::App;

pub(super) const NAME: &str = "admin-token";

/// The existing token if it is still valid for this database, else a new one.
pub(super) async fn ensure(app: &App, directory: &Path) -> Result<PathBuf, Failure> {
    let path = directory.join(NAME);
    if let Ok(token) = fs::read_to_string(&path)
        && is_valid(app, token.trim()).await
    {
        return Ok(path);
    }
    let token = create_admin_token(app.queue(), "windlass up").await?;
    private_file::write(&path, &token.expose())?;
    Ok(path)
}

async fn is_valid(app: &App, token: &str) -> bool {
    let Some(token) = TokenSecret::parse(token) else { return false };
    let known = app.authenticator().by_token(&token, None).await;
    known.is_ok_and(|known| known.caller.role == Role::SuperAdmin)
}
