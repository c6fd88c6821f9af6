//! Server-sent events, as they come.

use bytes::BytesMut;
use futures_util::StreamExt;

use super::{Chunks, Failure};

/// A stream of server-sent events.
pub(crate) struct EventReader {
    chunks: Chunks,
    text: BytesMut,
}

impl EventReader {
    pub(super) fn new(chunks: Chunks) -> Self {
        Self { chunks, text: BytesMut::new() }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<(String, String)>, Failure> {
        loop {
            if let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block = self.text.split_to(end + 2);
                if let Some(event) = parse_event(&String::from_utf8_lossy(&block)) {
                    return Ok(Some(event));
                }
                continue;
            }
            match self.chunks.next().await {
                Some(chunk) => self.text.extend_from_slice(&chunk?),
                None => return Ok(None),
            }
        }
    }
}

/// Comments and `retry` fields alone are not events.
fn parse_event(block: &str) -> Option<(String, String)> {
    let field = |name: &'static str| {
        block
            .lines()
            .filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|rest| rest.strip_prefix(' ').unwrap_or(rest))
    };
    let data: Vec<&str> = field("data").collect();
    let name = field("event").next().unwrap_or("message").to_owned();
    (!data.is_empty()).then(|| (name, data.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::parse_event;

    #[test]
    fn events_have_a_name_and_data_and_comments_are_not_events() {
        assert_eq!(parse_event("event: log\ndata: a\ndata: b\n\n"), Some(("log".into(), "a\nb".into())));
        assert_eq!(parse_event(": still here\n\n"), None);
    }
}
