//! The message about the last action, passed to the next page in a cookie and shown once.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::frame::Flash;

pub(crate) const NAME: &str = "windlass_flash";
pub(crate) const CLEAR: &str = "windlass_flash=; Path=/ui; Max-Age=0; HttpOnly; SameSite=Lax";

const MAX_LENGTH: usize = 400;

pub(crate) fn cookie(flash: &Flash) -> String {
    let text: String = flash.text.chars().take(MAX_LENGTH).collect();
    let mark = if flash.role == "succeeded" { 's' } else { 'f' };
    let value = URL_SAFE_NO_PAD.encode(format!("{mark}{text}"));
    format!("{NAME}={value}; Path=/ui; Max-Age=30; HttpOnly; SameSite=Lax")
}

pub(crate) fn read(value: &str) -> Option<Flash> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(value).ok()?).ok()?;
    let (role, text) = match text.split_at_checked(1)? {
        ("s", text) => ("succeeded", text),
        (_, text) => ("failed", text),
    };
    Some(Flash { role, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{Flash, cookie, read};

    #[test]
    fn a_message_round_trips_and_cannot_break_the_cookie() {
        let flash = Flash { role: "failed", text: "sorry; \r\nSet-Cookie: <b>ü".to_owned() };
        let cookie = cookie(&flash);
        let value = cookie.split(['=', ';']).nth(1).unwrap();
        assert!(value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        assert_eq!(read(value), Some(flash));
        assert_eq!(read("???"), None);
    }
}
