//! The endpoint of the HTTP jobs, in the harness. It succeeds, fails, asks to be called later, sends something else than JSON, or closes
//! the connection without a response, as the payload and the attempt say.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{Act, Payload};
use crate::soak::ledger::{Fact, Kind, Ledger};

#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) place: String,
    accepting: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Deserialize)]
struct Call {
    id: Uuid,
    attempt: i32,
    payload: Payload,
}

impl Receiver {
    pub(crate) async fn start(ledger: Arc<Ledger>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let place = listener.local_addr()?.to_string();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let ledger = ledger.clone();
                tokio::spawn(async move {
                    // A caller that was killed closes its connection.
                    let _ = serve(stream, &ledger).await;
                });
            }
        });
        Ok(Self { place, accepting })
    }
}

async fn serve(mut stream: TcpStream, ledger: &Ledger) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(4096);
    while let Some(body) = next_body(&mut stream, &mut bytes).await? {
        let Ok(call) = serde_json::from_slice::<Call>(&body) else {
            return respond(&mut stream, "400 Bad Request", "{}").await;
        };
        // A process without a pid: the run ends with the response, or is not supervised at all.
        let (job, attempt, pid) = (call.id, call.attempt, 0);
        ledger.note(Fact::Started { job, attempt, pid, kind: Kind::Http });
        tokio::time::sleep(Duration::from_millis(call.payload.ms)).await;
        let is_first = attempt == 1;
        let is_success =
            call.payload.act == Act::Succeed || (!is_first && call.payload.act != Act::FailForever);
        ledger.note(Fact::Ended { job, attempt, pid, is_success });
        match call.payload.act {
            _ if is_success => respond(&mut stream, "200 OK", r#"{"ok":true}"#).await?,
            Act::SnoozeOnce => {
                respond(&mut stream, "503 Service Unavailable\r\nretry-after: 1", "{}").await?;
            }
            Act::FailForever => respond(&mut stream, "422 Unprocessable Content", "no \u{1} JSON").await?,
            Act::Panic => return Ok(()),
            Act::FailOnce | Act::Succeed => respond(&mut stream, "500 Internal Server Error", "{").await?,
        }
    }
    Ok(())
}

async fn respond(stream: &mut TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(response.as_bytes()).await
}

/// Nothing at the end of the connection.
async fn next_body(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<Option<Vec<u8>>> {
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
    let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < head + length {
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
    let body = bytes[head..head + length].to_vec();
    bytes.drain(..head + length);
    Ok(Some(body))
}
