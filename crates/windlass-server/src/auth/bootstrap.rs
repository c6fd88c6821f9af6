//! The first credential: a super-admin token, created with direct access to the database.

use windlass::Queue;
use windlass::admin::{Actor, INSTALLATION, Reach};
use windlass::internals::NewToken;

use super::token::{TokenKind, TokenSecret};

/// Creates a super-admin token. For `windlass up`, for `windlass tokens create --database-url`, and for tests; over HTTP a
/// super-admin creates further ones.
pub async fn create_admin_token(queue: &Queue, name: &str) -> windlass::Result<TokenSecret> {
    let secret = TokenSecret::generate(TokenKind::Admin);
    let actor = Actor::new("system:bootstrap").role("super_admin");
    let acting = queue.act(Reach::Everything, &actor).await?;
    let token = NewToken {
        id: secret.id().to_owned(),
        kind: TokenKind::Admin.as_str().to_owned(),
        name: name.to_owned(),
        role: "super_admin".to_owned(),
        scopes: None,
        created_by: actor.name,
        expires_at: None,
    };
    acting.create_token(INSTALLATION, &token, &secret.hash()).await?;
    acting.commit().await?;
    Ok(secret)
}
