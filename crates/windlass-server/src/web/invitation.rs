//! The page that an invitation link opens. The holder of the link accepts as the account of the invited address: with
//! the current session, by signing in here, or by creating the account. The page does not reveal whether the address
//! has an account; an attempt to create it does.

use askama::Template;
use axum::extract::State as FromState;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use uuid::Uuid;
use windlass::internals::InvitedTo;

use super::assets;
use super::form_body::FormBody;
use super::link::Link;
use super::members::role_words;
use super::page::{Page, back, page, refused_form, sentence, without_referrer};
use super::sign_in::with_cookie;
use super::viewer::theme;
use crate::auth::session;
use crate::auth::{LinkSecret, Secret, accounts};
use crate::http::{App, Problem, ProblemKind};

#[derive(Template)]
#[template(path = "invitation.html")]
struct InvitationPage {
    theme: Option<&'static str>,
    css: String,
    tenant: String,
    role: &'static str,
    email: String,
    /// The email address of the signed-in user, or the kind of credential.
    signed_in: Option<String>,
    is_invited: bool,
    name: String,
    wrong: Option<String>,
    /// The error concerns the form for a new account.
    is_new: bool,
}

/// The signed-in viewer of the page.
struct Reader {
    who: String,
    user: Option<Uuid>,
    hash: [u8; 32],
}

/// `GET /ui/invitations/{secret}`
pub(crate) async fn show(
    FromState(app): FromState<App>,
    link: Link<InvitedTo>,
    headers: HeaderMap,
    from: session::From,
) -> Page {
    let reader = reader(&app, &from).await?;
    drawn(&headers, link.of, reader.as_ref(), (String::new(), None, false))
}

fn drawn(
    headers: &HeaderMap,
    invited: InvitedTo,
    reader: Option<&Reader>,
    (name, wrong, is_new): (String, Option<String>, bool),
) -> Page {
    let drawn = page(&InvitationPage {
        theme: theme(headers),
        css: assets::css_address(),
        tenant: invited.tenant_name,
        role: role_words(&invited.role),
        is_invited: reader.is_some_and(|reader| reader.user.is_some() && reader.who == invited.email),
        signed_in: reader.map(|reader| reader.who.clone()),
        email: invited.email,
        name,
        wrong,
        is_new,
    });
    drawn.map(without_referrer)
}

async fn reader(app: &App, from: &session::From) -> Result<Option<Reader>, Problem> {
    let signed_in = session::signed_in(app, from).await?;
    Ok(signed_in.map(|(session, hash)| {
        let who = session.email.unwrap_or_else(|| "a token".to_owned());
        Reader { who, user: session.user_id, hash }
    }))
}

/// `POST /ui/invitations/{secret}`: accepts, signs in and accepts, creates the account and accepts, or signs out.
pub(crate) async fn act(
    FromState(app): FromState<App>,
    Link { secret, of: invited }: Link<InvitedTo>,
    headers: HeaderMap,
    from: session::From,
    posted: FormBody,
) -> Page {
    let reader = reader(&app, &from).await?;
    if posted.get("do") == Some("sign-out") {
        let cookie = session::sign_out(&app, &from).await?;
        let again = format!("/ui/invitations/{}", secret.expose());
        return Ok(without_referrer(with_cookie(Redirect::to(&again).into_response(), cookie)));
    }
    match accepted(&app, (&secret, &invited), reader.as_ref(), &posted, &from).await {
        Ok(response) => Ok(response),
        Err(problem) if problem.kind.is_correctable() => {
            let name = posted.get("name").unwrap_or_default().to_owned();
            let is_new = reader.is_none() && posted.get("do") == Some("create");
            let response =
                drawn(&headers, invited, reader.as_ref(), (name, Some(sentence(&problem.detail)), is_new))?;
            Ok(refused_form(response, &problem))
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn accepted(
    app: &App,
    (secret, invited): (&LinkSecret, &InvitedTo),
    reader: Option<&Reader>,
    posted: &FormBody,
    from: &session::From,
) -> Result<Response, Problem> {
    let password = Secret::new(posted.get("password").unwrap_or_default());
    let name = posted.get("name").unwrap_or_default();
    let words = format!("You are now a member of {}.", invited.tenant_name);
    let response = || back("/ui/jobs", "succeeded", words);
    match (posted.get("do"), reader) {
        (Some("accept"), Some(Reader { who, user: Some(_), .. })) if *who != invited.email => {
            let detail = "the invitation is for a different email address: sign out, and sign in with the account of that address";
            Err(Problem::of(ProblemKind::Conflict, detail))
        }
        (Some("accept"), Some(Reader { user: Some(user), hash, .. })) => {
            accounts::accept(app, (secret, invited), (*user, hash), from).await?;
            Ok(response())
        }
        (Some("sign-in"), None) => {
            let begun = session::enter(app, &invited.email, password, from).await?;
            let signed_in = app.queue().session_of(&begun.hash).await?.and_then(|session| session.user_id);
            let user = signed_in.ok_or_else(Problem::unauthorized)?;
            accounts::accept(app, (secret, invited), (user, &begun.hash), from).await?;
            Ok(with_cookie(response(), begun.cookie))
        }
        (Some("create"), None) => {
            let begun = accounts::accept_as_new(app, (secret, invited), name, password, from).await?;
            Ok(with_cookie(response(), begun.cookie))
        }
        _ => {
            let detail = "you are signed in with a different account than when this page was opened; nothing was changed";
            Err(Problem::invalid("", detail))
        }
    }
}
