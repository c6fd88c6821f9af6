//! A minimal HTTP/1.1 server that misbehaves exactly as a test requests: one request per connection.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The header's value; empty if it was not sent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Whole(Vec<u8>),
    /// Endless zeros.
    Endless,
    /// No response at all.
    Never,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::text(status, &body.to_string()).header("content-type", "application/json")
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: Body::Whole(body.as_bytes().to_vec()) }
    }

    pub(crate) fn redirect(status: u16, to: &str) -> Self {
        Self::text(status, "").header("location", to)
    }

    pub(crate) fn endless() -> Self {
        Self { status: 200, headers: Vec::new(), body: Body::Endless }
    }

    pub(crate) fn never() -> Self {
        Self { status: 200, headers: Vec::new(), body: Body::Never }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

type Answer = Arc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_async(move |request| {
            let reply = answer(&request);
            async move { reply }
        })
        .await
    }

    pub(crate) async fn start_async<F>(answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        Self::serve(listener, Arc::new(move |request| Box::pin(answer(request))))
    }

    pub(crate) fn serve(listener: TcpListener, answer: Answer) -> Self {
        let address = listener.local_addr().unwrap();
        let (seen, connections, open) =
            (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let task = tokio::spawn({
            let (seen, connections, open) = (seen.clone(), connections.clone(), open.clone());
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    connections.fetch_add(1, Ordering::SeqCst);
                    open.fetch_add(1, Ordering::SeqCst);
                    let (seen, open, answer) = (seen.clone(), open.clone(), answer.clone());
                    tokio::spawn(async move {
                        // A caller that closes the connection is part of the test.
                        let _ = one(stream, &seen, &answer).await;
                        open.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            }
        });
        Self { address, seen, connections, open, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// As `allow` names it.
    pub(crate) fn place(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn one(mut stream: TcpStream, seen: &Mutex<Vec<Request>>, answer: &Answer) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) =
        (first.next().unwrap_or_default().to_owned(), first.next().unwrap_or_default().to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut request = Request { method, path, headers, body: bytes[head + 4..].to_vec() };
    let length: usize = request.header("content-length").parse().unwrap_or(0);
    while request.body.len() < length {
        if stream.read_buf(&mut request.body).await? == 0 {
            return Ok(());
        }
    }
    seen.lock().unwrap().push(request.clone());
    let reply = answer(request).await;
    let mut head = format!("HTTP/1.1 {} Reply\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match reply.body {
        Body::Whole(body) => {
            head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await
        }
        Body::Endless => {
            stream.write_all(format!("{head}\r\n").as_bytes()).await?;
            loop {
                stream.write_all(&[b'0'; 64 * 1024]).await?;
            }
        }
        Body::Never => {
            let mut rest = [0; 64];
            // Until the caller closes the connection.
            while stream.read(&mut rest).await? > 0 {}
            Ok(())
        }
    }
}
