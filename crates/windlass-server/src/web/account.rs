//! The account of the signed-in user, and a form to change the password.

use askama::Template;
use axum::extract::State as FromState;
use axum::http::HeaderMap;

use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::page::{Page, back, page, refused_form, sentence};
use super::viewer::Viewer;
use crate::auth::session::{Secure, session_hash};
use crate::auth::{Secret, Who, accounts};
use crate::http::App;

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage {
    frame: Frame,
    /// The email address of a user; none if the viewer signed in with a token.
    email: Option<String>,
    wrong: Option<String>,
}

/// `GET /ui/account`
pub(crate) async fn show(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    drawn(&app, &viewer, None).await
}

async fn drawn(app: &App, viewer: &Viewer, wrong: Option<String>) -> Page {
    let mut frame = viewer.frame(app, Section::Other).await?;
    // A refresh must not overwrite what the user types.
    frame.is_live = false;
    let email = match &viewer.caller.who {
        Who::User { email, .. } => Some(email.clone()),
        _ => None,
    };
    page(&AccountPage { frame, email, wrong })
}

/// `POST /ui/account`: changes the password.
pub(crate) async fn change(
    FromState(app): FromState<App>,
    viewer: Viewer,
    headers: HeaderMap,
    secure: Secure,
    posted: FormBody,
) -> Page {
    let secret = |name: &str| Secret::new(posted.get(name).unwrap_or_default());
    let session = session_hash(&headers, secure);
    let (current, new) = (secret("current_password"), secret("new_password"));
    match accounts::change_password(&app, &viewer.caller, session, current, new).await {
        Ok(()) => {
            let words = "Password changed. All your other sessions were signed out.";
            Ok(back("/ui/account", "succeeded", words))
        }
        Err(problem) if problem.kind.is_correctable() => {
            let response = drawn(&app, &viewer, Some(sentence(&problem.detail.replace('_', " ")))).await?;
            Ok(refused_form(response, &problem))
        }
        Err(problem) => Err(problem.into()),
    }
}
