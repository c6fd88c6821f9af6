//! Access to the server. Its only role is a superuser without a password, so the file system controls access: the
//! socket is in a directory that only the server's own user and root can enter, and TCP is disabled.

use std::fs;
use std::path::Path;

use super::EmbeddedError;
use super::server_user::ServerUser;

const FILE_NAME: &str = "pg_hba.conf";

/// No rule for TCP: even a server that listens on TCP, because it was started by an older version or with the caller's
/// settings, accepts no such connections.
const RULES: &str = "# written by windlass before each start; changes here are lost\n\
                     local all all trust\n\
                     local replication all trust\n";

/// Writes the rules. Returns whether they changed: then a running server must reload them.
pub(super) fn write(data_dir: &Path, user: &ServerUser) -> Result<bool, EmbeddedError> {
    let path = data_dir.join(FILE_NAME);
    if fs::read_to_string(&path).is_ok_and(|text| text == RULES) {
        return Ok(false);
    }
    let partial = data_dir.join("pg_hba.conf.new");
    fs::write(&partial, RULES).map_err(EmbeddedError::io("write", &partial))?;
    user.take_ownership_of(&partial)?;
    fs::rename(&partial, &path).map_err(EmbeddedError::io("write", &path))?;
    Ok(true)
}
