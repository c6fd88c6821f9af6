//! A submitted form. It is rejected if a page of another site sent it, if it was rendered for another tenant, or
//! if it contains text that the database cannot store.
//!
//! Every form that changes something contains the tenant for which it was rendered (`acting_for` of the templates). While a
//! page is open, the user may switch to another tenant in a second tab, or lose the membership.

use axum::extract::{FromRequest, Request};
use std::collections::HashMap;
use uuid::Uuid;

use super::problem::PageProblem;
use crate::auth::Caller;
use crate::http::{App, Problem, ProblemKind, host, read};

/// The maximum size of a form from a client that is not signed in, in bytes.
const MAX_ANONYMOUS: usize = 16 * 1024;

/// The maximum number of fields of a form: the largest selects a thousand jobs. Each field of two bytes takes about sixty in memory.
const MAX_FIELDS: usize = 2000;

/// The fields, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct FormBody(pub(crate) Vec<(String, String)>);

impl FromRequest<App> for FormBody {
    type Rejection = PageProblem;

    async fn from_request(request: Request, app: &App) -> Result<Self, PageProblem> {
        let (head, body) = request.into_parts();
        host::check_same_origin(&head, app)?;
        let caller = head.extensions.get::<Caller>().cloned();
        // An anonymous client needs no more than an email address and a password.
        let most = if caller.is_some() { app.options().max_body_bytes } else { MAX_ANONYMOUS };
        let (bytes, _held) = read(Request::from_parts(head, body), app, most).await?;
        let posted = Self(pairs_of(&bytes)?);
        if let Some((name, _)) =
            posted.0.iter().find(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            let name = name.replace('\0', "");
            return Err(Problem::invalid(format!("/{name}"), "must not contain the NUL character").into());
        }
        if let Some(caller) = caller {
            posted.check_tenant(&caller)?;
        }
        Ok(posted)
    }
}

/// The pairs of an `application/x-www-form-urlencoded` body; invalid UTF-8 is replaced.
fn pairs_of(bytes: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let parts = bytes.split(|byte| *byte == b'&').filter(|part| !part.is_empty());
    if parts.clone().nth(MAX_FIELDS).is_some() {
        return Err(Problem::invalid("", format!("a form must have at most {MAX_FIELDS} fields")));
    }
    let pair = |part: &[u8]| {
        let at = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
        (decode(&part[..at]), decode(part.get(at + 1..).unwrap_or_default()))
    };
    Ok(parts.map(pair).collect())
}

fn decode(part: &[u8]) -> String {
    let mut out = Vec::with_capacity(part.len());
    let mut rest = part.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let mut ahead = rest.clone();
                match (digit(ahead.next()), digit(ahead.next())) {
                    (Some(high), Some(low)) => {
                        out.push((high * 16 + low) as u8);
                        rest = ahead;
                    }
                    _ => out.push(b'%'),
                }
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl FormBody {
    /// Rejects a form that was rendered for a tenant other than the current one of the caller.
    fn check_tenant(&self, caller: &Caller) -> Result<(), Problem> {
        if self.get("acting_for") == Some(caller.tenant().to_string().as_str()) {
            return Ok(());
        }
        let detail = "this page was opened for a tenant that is no longer selected; nothing was changed; reload the page";
        Err(Problem::of(ProblemKind::Conflict, detail))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field, if it is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty())
    }

    pub(crate) fn ids(&self, name: &str) -> Vec<Uuid> {
        let named = self.0.iter().filter(|(key, _)| key == name);
        named.filter_map(|(_, value)| Uuid::try_parse(value).ok()).collect()
    }

    pub(crate) fn into_map(self) -> HashMap<String, String> {
        self.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_FIELDS, pairs_of};

    #[test]
    fn fields_are_read_as_they_were_sent() {
        let pairs = pairs_of(b"a=1+2%20%C3%BC&id=x&id=y&empty=&bad=%zz&%FF").unwrap();
        let seen: Vec<(&str, &str)> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            seen,
            [("a", "1 2 ü"), ("id", "x"), ("id", "y"), ("empty", ""), ("bad", "%zz"), ("\u{fffd}", "")]
        );
    }

    /// a form of four megabytes with two million empty fields.
    #[test]
    fn the_number_of_fields_is_limited() {
        assert_eq!(pairs_of("a&".repeat(MAX_FIELDS).as_bytes()).unwrap().len(), MAX_FIELDS);
        let problem = pairs_of("a&".repeat(MAX_FIELDS + 1).as_bytes()).unwrap_err();
        assert_eq!(problem.detail, "a form must have at most 2000 fields");
        assert!(pairs_of("&".repeat(1_000_000).as_bytes()).unwrap().is_empty(), "nothing between them");
    }
}
