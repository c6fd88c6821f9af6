//! What PostgREST does for `POST /rpc/emit`, step by step: it logs in as a role without rights, verifies the JWT, assumes the
//! role that it names (the anonymous one without a token), sets its claims, and calls the function with the members of the body
//! as named arguments. The program itself does not run here, because no package that the
//! tests can install contains it. The roles are a member's and an anonymous one; a forged token is tried too.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;
use windlass::events::EventFilter;
use windlass_testing::TestQueue;

use super::{dispatch, sync_dropbox};
use crate::support::count;

const SECRET: &[u8] = b"the secret that PostgREST shares with the issuer of its tokens";

/// HS256 as specified in RFC 7515.
fn signature(text: &str, secret: &[u8]) -> String {
    let pad = |byte: u8| -> Vec<u8> {
        (0..64).map(|position| secret.get(position).copied().unwrap_or(0) ^ byte).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    URL_SAFE_NO_PAD.encode(Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize())
}

fn token(claims: &Value, secret: &[u8]) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    format!("{text}.{}", signature(&text, secret))
}

/// The result of a call.
enum Answer {
    /// 401: the database was not called.
    Unverified,
    Done(Row),
    Refused(Error),
}

struct PostgRest {
    client: Client,
    anonymous: String,
}

impl PostgRest {
    async fn rpc(&mut self, token: Option<&str>, function: &str, body: &Value) -> Answer {
        let claims = match token.map(verified) {
            None => json!({"role": self.anonymous}),
            Some(Some(claims)) => claims,
            Some(None) => return Answer::Unverified,
        };
        let role = claims["role"].as_str().unwrap().to_owned();
        let tx = self.client.transaction().await.unwrap();
        tx.batch_execute(&format!("set local role {role}")).await.unwrap();
        tx.query("select set_config('request.jwt.claims', $1, true)", &[&claims.to_string()]).await.unwrap();
        // The function of `db-pre-request`: the tenant of the verified claims becomes the current one.
        let before = "select set_config('windlass.tenant_id', coalesce(current_setting('request.jwt.claims')::jsonb ->> 'tenant_id', ''), true)";
        tx.query(before, &[]).await.unwrap();
        let named: Vec<String> = body
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => format!("{name} => '{}'", text.replace('\'', "''")),
                other => format!("{name} => '{}'::jsonb", other.to_string().replace('\'', "''")),
            })
            .collect();
        match tx.query_one(&format!("select * from windlass.{function}({})", named.join(", ")), &[]).await {
            Ok(row) => {
                tx.commit().await.unwrap();
                Answer::Done(row)
            }
            Err(error) => Answer::Refused(error),
        }
    }
}

fn verified(token: &str) -> Option<Value> {
    let (text, given) = token.rsplit_once('.')?;
    (signature(text, SECRET) == given).then(|| {
        let claims = URL_SAFE_NO_PAD.decode(text.split_once('.').unwrap().1).unwrap();
        serde_json::from_slice(&claims).unwrap()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn rpc_under_a_jwt_role_may_emit_and_enqueue_and_an_anonymous_one_may_not() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    sync_dropbox(&queue).await;
    let (tenant, other) = (queue.tenant("app").await, queue.tenant("other").await);
    let suffix = Uuid::new_v4().simple().to_string();
    let (authenticator, user, anon) =
        (format!("authenticator_{suffix}"), format!("app_user_{suffix}"), format!("anon_{suffix}"));
    admin
        .batch_execute(&format!(
            "create role {authenticator} login noinherit; create role {user} nologin; create role {anon} nologin;
             grant {user}, {anon} to {authenticator}; grant windlass_app to {user}"
        ))
        .await
        .unwrap();
    let mut config: tokio_postgres::Config = queue.url().parse().unwrap();
    config.user(&authenticator);
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let mut postgrest = PostgRest { client, anonymous: anon.clone() };

    let emit = json!({"name": "provider.folder.updated", "payload": {"provider_id": Uuid::nil(), "folder_path": "/"}});
    let enqueue = json!({"definition_key": "sync-dropbox", "payload": {"provider_id": Uuid::nil()}});
    let member = token(&json!({"role": user, "tenant_id": tenant}), SECRET);
    let calls = [("emit", &emit), ("enqueue", &enqueue)];
    for (function, body) in calls {
        let result = postgrest.rpc(Some(&member), function, body).await;
        let Answer::Done(row) = result else { panic!("{function} is denied to a member") };
        assert!(row.get::<_, Uuid>("id").get_version_num() == 7);
        for token in [None, Some(token(&json!({"role": anon, "tenant_id": tenant}), SECRET))] {
            match postgrest.rpc(token.as_deref(), function, body).await {
                Answer::Refused(error) => assert_eq!(error.code().unwrap().code(), "42501", "{function}"),
                Answer::Done(_) | Answer::Unverified => panic!("{function} without a role"),
            }
        }
        let forged = token(&json!({"role": user, "tenant_id": other}), b"another secret");
        assert!(matches!(postgrest.rpc(Some(&forged), function, body).await, Answer::Unverified));
        // A member that names another tenant than that of the claims.
        let mut foreign = body.clone();
        foreign["tenant_id"] = json!(other);
        assert!(matches!(postgrest.rpc(Some(&member), function, &foreign).await, Answer::Refused(_)));
    }
    dispatch(&queue).await;
    let events = queue.events(tenant, &EventFilter::default()).await.unwrap();
    assert_eq!(events.len(), 1, "for the tenant of the claims");
    assert!(queue.events(other, &EventFilter::default()).await.unwrap().is_empty());
    let jobs = format!("select count(*) from windlass.job where tenant_id = '{tenant}'");
    assert_eq!(count(&admin, &jobs).await, 1);
    drop(postgrest);
    driver.await.unwrap().unwrap();
    admin
        .batch_execute(&format!(
            "drop owned by {user}; drop role {authenticator}; drop role {user}; drop role {anon}"
        ))
        .await
        .unwrap();
}
